// Logs of nothing but a step and a loss on each line, with a sentence here and there:
//   4950 2.6
//   4960 nan
//   Saving the model
// Two columns of numbers may be anything. So the head must hold several such lines, the first column rising by the same amount
// nearly always and the second one not a whole number, and a sentence that speaks of training.
#include <algorithm>
#include <array>
#include <string>

#include "server/logimport/formats/formats.h"
#include "server/logimport/number.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxRow = 256;  // a longer line is none of these
constexpr std::size_t kEnough = 5;    // rows in the head

struct Row {
  std::int64_t step = 0;
  Number loss;
};

std::optional<Row> row_of(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  const auto step = parse_number(line);
  if (!step || !step->integer || !step->count()) return std::nullopt;
  line.remove_prefix(step->length);
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == 0 || begin == std::string_view::npos) return std::nullopt;
  const auto loss = parse_number(line.substr(begin));
  if (!loss || loss->integer || loss->length != line.size() - begin) return std::nullopt;
  return Row{*step->count(), *loss};
}

bool speaks_of_training(std::string_view line) {
  static constexpr auto kWords = std::to_array<std::string_view>({"model", "checkpoint", "epoch", "train", "learning"});
  std::string lower(line.substr(0, kMaxRow));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return c < 0x80 ? std::tolower(c) : c; });
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

class NumberColumns final : public ContentFormat {
 public:
  std::string_view name() const override { return "number_columns"; }

  bool recognises(std::string_view head) const override {
    std::size_t rows = 0;
    std::size_t others = 0;
    std::size_t even = 0;  // rows that are as far from the one before as that was
    bool training = false;
    std::optional<std::int64_t> last;
    std::int64_t stride = 0;
    while (!head.empty()) {
      const std::size_t end = head.find('\n');
      const std::string_view line = head.substr(0, end);
      head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const auto row = line.size() <= kMaxRow ? row_of(line) : std::nullopt;
      if (!row) {
        ++others;
        training = training || speaks_of_training(line);
        continue;
      }
      if (last && row->step - *last > 0 && (stride == 0 || row->step - *last == stride)) ++even;
      if (last && row->step > *last) stride = row->step - *last;
      last = row->step;
      ++rows;
    }
    return training && rows >= kEnough && others * 2 <= rows && (even + 1) * 10 >= rows * 8;
  }

  void feed(std::string_view bytes, ReadingSink& sink) override {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (rest_.size() <= kMaxRow) rest_.append(part.substr(0, kMaxRow + 1));
      if (end == std::string_view::npos) return;
      bytes.remove_prefix(end + 1);
      take(sink);
    }
  }

  void finish(ReadingSink& sink) override {
    if (!rest_.empty()) take(sink);
  }

 private:
  void take(ReadingSink& sink) {
    ++line_;
    const auto row = rest_.size() <= kMaxRow ? row_of(rest_) : std::nullopt;
    rest_.clear();
    if (!row) return;
    Reading reading;
    reading.line = line_;
    reading.format = name();
    reading.step = row->step;
    reading.loss = row->loss.value;
    sink.take(reading);
  }

  std::string rest_;  // of a line whose end has not come
  std::uint64_t line_ = 0;
};

}  // namespace

std::unique_ptr<ContentFormat> make_number_columns() {
  return std::make_unique<NumberColumns>();
}

}  // namespace scalewatch::logimport
