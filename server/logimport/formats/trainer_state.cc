// Hugging Face's trainer_state.json, whose log_history lists the dictionaries that the trainer printed, and any JSON array of
// such records. Read as a stream: the numbers of one object are gathered as a line of text and read like a line.
#include <array>
#include <string>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxRecord = 16 * 1024;  // of one object's names and numbers; more is dropped
constexpr std::size_t kMaxToken = 256;

constexpr KeyRule kKeys[] = {{"train_loss", Meaning::kNone}};
constexpr RecordRules kTrainerRules = {
    .keys = kKeys, .loss_span = Reading::Span::kInterval, .grad_norm_span = Reading::Span::kStep, .counts_attempts = true};

std::string_view without_blanks(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

// "8270/11043" counts: ms-swift prints its step so.
bool is_number(std::string_view text) {
  const auto number = parse_number(text);
  if (!number) return false;
  if (number->length == text.size()) return true;
  if (text[number->length] != '/') return false;
  const auto of = parse_number(text.substr(number->length + 1));
  return of && number->length + 1 + of->length == text.size();
}

class JsonRecords : public ContentFormat {
 public:
  void feed(std::string_view bytes, ReadingSink& sink) override {
    for (const char c : bytes) {
      if (c == '\n') ++line_;
      step(c, sink);
    }
  }
  void finish(ReadingSink& /*sink*/) override {}

 protected:
  // Objects at this depth and right in an array of this name are records.
  virtual bool is_record(std::size_t depth, std::string_view array) const = 0;
  virtual const RecordRules& rules() const = 0;
  virtual bool accept(const Pairs& pairs, Reading& reading) const = 0;

 private:
  void step(char c, ReadingSink& sink) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        return;
      }
      if (token_.size() < kMaxToken) token_ += c;
      return;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        token_.clear();
        return;
      case ':':
        key_ = token_;
        token_.clear();
        return;
      case ',':
        value();
        return;
      case '{':
      case '[':
        open(c);
        return;
      case '}':
      case ']':
        value();
        close(c, sink);
        return;
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        return;
      default:
        if (token_.size() < kMaxToken) token_ += c;
    }
  }

  void open(char c) {
    if (depth_ < kMaxDepth) {
      arrays_[depth_] = c == '[' ? key_ : std::string();
      if (c == '{' && is_record(depth_, depth_ > 0 ? arrays_[depth_ - 1] : std::string())) {
        record_.clear();
        record_depth_ = depth_ + 1;
        record_line_ = line_;
      }
    }
    ++depth_;
    key_.clear();
    token_.clear();
  }

  void close(char c, ReadingSink& sink) {
    if (c == '}' && record_depth_ == depth_ && depth_ > 0) {
      emit(sink);
      record_depth_ = 0;
    }
    if (depth_ > 0) --depth_;
    key_.clear();
  }

  // A name and its value are complete.
  void value() {
    if (record_depth_ == depth_ && depth_ > 0 && !key_.empty() && is_number(token_) &&
        record_.size() + key_.size() + token_.size() + 8 <= kMaxRecord) {
      record_.append("\"").append(key_).append("\": ").append(token_).append(", ");
    }
    key_.clear();
    token_.clear();
  }

  void emit(ReadingSink& sink) {
    pairs_.read(record_);
    Reading reading;
    reading.line = record_line_;
    reading.format = name();
    const Evidence evidence = fill_record(pairs_, rules(), reading);
    if (!settle_kind(evidence, reading) || !accept(pairs_, reading)) return;
    sink.take(reading);
  }

  std::uint64_t line_ = 1;
  bool in_string_ = false;
  bool escaped_ = false;
  std::size_t depth_ = 0;
  std::string token_, key_;
  std::array<std::string, kMaxDepth> arrays_;  // names of those that are open, by depth
  std::string record_;
  std::size_t record_depth_ = 0;
  std::uint64_t record_line_ = 0;
  Pairs pairs_;
};

class TrainerState final : public JsonRecords {
 public:
  std::string_view name() const override { return "trainer_state_json"; }
  bool recognises(std::string_view head) const override {
    return without_blanks(head).starts_with('{') && head.find("\"log_history\"") != std::string_view::npos;
  }

 private:
  bool is_record(std::size_t depth, std::string_view array) const override { return depth == 2 && array == "log_history"; }
  const RecordRules& rules() const override { return kTrainerRules; }
  bool accept(const Pairs& pairs, Reading& reading) const override {
    if (pairs.find("train_runtime") != nullptr) {
      reading.kind = Reading::Kind::kEnd;
      reading.loss.reset();
    }
    return true;
  }
};

class JsonArray final : public JsonRecords {
 public:
  std::string_view name() const override { return "json_array"; }
  bool recognises(std::string_view head) const override {
    std::string_view text = without_blanks(head);
    if (!text.starts_with('[')) return false;
    text = without_blanks(text.substr(1));
    if (!text.starts_with('{')) return false;
    // Whether it reads as one.
    struct First final : ReadingSink {
      bool found = false;
      void take(const Reading& r) override { found = found || r.step || r.epoch || r.batch; }
    } first;
    JsonArray trial;
    trial.feed(head, first);
    return first.found;
  }

 private:
  bool is_record(std::size_t depth, std::string_view /*array*/) const override { return depth == 1; }
  const RecordRules& rules() const override { return rules_; }
  bool accept(const Pairs& /*pairs*/, Reading& reading) const override { return reading.kind == Reading::Kind::kRecord; }

  RecordRules rules_;
};

}  // namespace

std::unique_ptr<ContentFormat> make_trainer_state() {
  return std::make_unique<TrainerState>();
}

std::unique_ptr<ContentFormat> make_json_array() {
  return std::make_unique<JsonArray>();
}

}  // namespace scalewatch::logimport
