#include "server/logimport/prefix.h"

#include <algorithm>
#include <array>

#include "server/logimport/timestamp.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kLevels[] = {"info", "warning", "error", "debug",  "critical",
                                        "warn", "fatal",   "trace", "notice", "success"};
constexpr std::uint32_t kMaxRank = 1 << 20;
constexpr std::size_t kMaxItems = 16;
constexpr std::size_t kMaxNameBytes = 64;  // of a pod, a container, a logger

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_name(char c) {
  return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool begins(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (lower(text[i]) != word[i]) return false;
  }
  return true;
}

// Reads a whole number at the start of text and takes it off.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  std::size_t end = 0;
  for (; end < text.size() && is_digit(text[end]); ++end) {
    value = value * 10 + static_cast<std::uint32_t>(text[end] - '0');
    if (value > kMaxRank) return std::nullopt;
  }
  if (end == 0) return std::nullopt;
  text.remove_prefix(end);
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!begins(text, word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// The number that a name of a pod or container ends with: train-worker-3, trainer_1.
std::optional<std::uint32_t> ordinal(std::string_view name) {
  std::size_t digits = name.size();
  while (digits > 0 && is_digit(name[digits - 1])) --digits;
  if (digits == name.size() || digits < 2 || name.size() - digits > 4) return std::nullopt;
  if (name[digits - 1] != '-' && name[digits - 1] != '_') return std::nullopt;
  std::string_view number = name.substr(digits);
  return take_number(number);
}

// Walks the prefix; each item takes its bytes off text, or leaves it as it was.
class Prefix {
 public:
  Prefix(Line& line, bool numbered) : line_(line), text_(line.text), numbered_(numbered) {}

  void walk() {
    for (std::size_t item = 0; item < kMaxItems; ++item) {
      skip_separators();
      at_start_ = item == 0;
      if (!(launcher() || time() || bracket() || level() || rank_word() || logger())) break;
    }
    skip_separators();
    line_.body = static_cast<std::size_t>(text_.data() - line_.text.data());
  }

 private:
  void skip_separators() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\t' || text_[0] == '|' || text_[0] == '-' || text_[0] == ':')) {
      if (text_[0] == '-' && text_.size() > 1 && text_[1] != ' ' && text_[1] != '-' && !at_separator_) break;
      text_.remove_prefix(1);
    }
    at_separator_ = false;
  }

  bool found(std::string_view rest, std::optional<std::uint32_t> rank = std::nullopt) {
    if (rank && !line_.rank) line_.rank = rank;
    text_ = rest;
    return true;
  }

  // [rank0]:  [default0]:  [1,0]<stdout>:  3:  trainer-1 |  train-worker-0 main
  bool launcher() {
    if (text_.empty()) return false;
    std::string_view rest = text_;
    if (text_[0] == '[') return launcher_bracket();
    if (!at_start_) return false;
    if (!is_digit(text_[0])) return container();
    const auto rank = take_number(rest);
    if (rank && *rank < 65536 && take(rest, ": ")) return found(rest, numbered_ ? rank : std::nullopt);
    return container();
  }

  bool launcher_bracket() {
    std::string_view rest = text_;
    if (take(rest, "[rank") || (rest = text_, take(rest, "[default"))) {
      const auto rank = take_number(rest);
      if (rank && take(rest, "]:")) return found(rest, rank);
    }
    rest = text_;
    if (take(rest, "[") && take_number(rest) && take(rest, ",")) {
      const auto rank = take_number(rest);
      if (rank && (take(rest, "]<stdout>:") || take(rest, "]<stderr>:") || take(rest, "]<stddiag>:"))) return found(rest, rank);
    }
    return false;
  }

  bool container() {
    const std::size_t end = name_end(text_);
    if (end == 0 || end >= text_.size()) return false;
    const auto number = ordinal(text_.substr(0, end));
    if (!number) return false;
    std::size_t next = end;
    while (next < text_.size() && text_[next] == ' ') ++next;
    if (next < text_.size() && text_[next] == '|' && next > end) return found(text_.substr(next + 1), number);
    // A pod and its container, as stern prints them: names with at least two dashes, so that "epoch-3 done" is none.
    if (std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '-') < 2 || next != end + 1) return false;
    const std::string_view second = text_.substr(next);
    const std::size_t length = name_end(second);
    if (length == 0 || length + 1 >= second.size() || second[length] != ' ' || !is_letter(second[0])) return false;
    for (const std::string_view word : {"loss", "step", "epoch", "iter", "train"}) {
      if (begins(second, word) && length < word.size() + 7) return false;
    }
    return found(second.substr(length), number);
  }

  bool time() {
    const Timestamp stamp = timestamp_at(text_);
    if (stamp.length == 0 || (!stamp.has_date && !at_start_)) return false;
    if (!line_.time_ms) line_.time_ms = stamp.ms;
    std::string_view rest = text_.substr(stamp.length);
    at_separator_ = true;
    if (take(rest, " stdout f ") || (rest = text_.substr(stamp.length), take(rest, " stderr f "))) return found(rest);
    return found(text_.substr(stamp.length));
  }

  // [2023-04-28 06:51:29,903]  [INFO]  [train.py:1056]  (main.py 221)  (7/8)  [Rank 0]  [pod/train-0/main]  {train.py:10}
  bool bracket() {
    if (text_.empty() || (text_[0] != '[' && text_[0] != '(' && text_[0] != '{')) return false;
    const char close = text_[0] == '[' ? ']' : text_[0] == '(' ? ')' : '}';
    const std::size_t end = text_.substr(0, 160).find(close);
    if (end == std::string_view::npos || end < 2) return false;
    const std::string_view inside = text_.substr(1, end - 1);
    const std::string_view after = text_.substr(end + 1);
    std::string_view rest = inside;
    if (take(rest, "rank")) {
      while (!rest.empty() && (rest[0] == ' ' || rest[0] == ':' || rest[0] == '=')) rest.remove_prefix(1);
      if (const auto rank = take_number(rest)) return found(after, rank);
    }
    rest = inside;
    if (close == ')') {  // (rank/world) after a time and a file
      const auto rank = take_number(rest);
      if (rank && take(rest, "/")) {
        const auto world = take_number(rest);
        if (world && rest.empty() && *rank < *world && line_.time_ms) return found(after, rank);
      }
    }
    rest = inside;
    if (take(rest, "pod/")) return found(after, ordinal(rest.substr(0, std::min(rest.find('/'), rest.size()))));
    if (const Timestamp stamp = timestamp_at(inside); stamp.length > 0) {
      if (!line_.time_ms) line_.time_ms = stamp.ms;
      return found(after);
    }
    if (inside.find(".py") != std::string_view::npos || is_level(inside)) return found(after);
    // A logger's name: one word with a dot or underscore between other brackets, never a number or a key.
    const bool name = std::all_of(inside.begin(), inside.end(), is_name) && is_letter(inside[0]);
    return name && !after.empty() && (after[0] == '[' || after.starts_with(" [") || after.starts_with(": ")) && found(after);
  }

  static bool is_level(std::string_view word) {
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    for (const std::string_view level : kLevels) {
      if (word.size() == level.size() && begins(word, level)) return true;
    }
    return false;
  }

  // INFO  WARNING:root:  INFO - INFO |
  bool level() {
    if (text_.empty() || text_[0] < 'A' || text_[0] > 'Z') return false;
    std::size_t end = 0;
    while (end < text_.size() && end < 9 && is_letter(text_[end])) ++end;
    if (end < 4 || !is_level(text_.substr(0, end))) return false;
    if (end < text_.size() && text_[end] != ' ' && text_[end] != ':' && text_[end] != '|' && text_[end] != '\t') return false;
    std::string_view rest = text_.substr(end);
    if (take(rest, ":")) {
      const std::size_t name = name_end(rest);
      if (name > 0 && name < rest.size() && rest[name] == ':') return found(rest.substr(name + 1));
    }
    return found(text_.substr(end));
  }

  // Rank 0 |  rank=0  rank:0  Rank 0:
  bool rank_word() {
    std::string_view rest = text_;
    if (!take(rest, "rank")) return false;
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == ':' || rest[0] == '=' || rest[0] == '_')) rest.remove_prefix(1);
    const auto rank = take_number(rest);
    return rank && (rest.empty() || !is_name(rest[0])) && found(rest, rank);
  }

  // trainer.loop:run:120 -   fairseq.trainer |   (after a time: the name of what logs)
  bool logger() {
    if (!line_.time_ms || at_start_) return false;
    std::size_t end = 0;
    while (end < text_.size() && end < kMaxNameBytes &&
           (is_name(text_[end]) || text_[end] == ':' || text_[end] == '<' || text_[end] == '>'))
      ++end;
    if (end == 0 || !(is_letter(text_[0]) || text_[0] == '_' || text_[0] == '<')) return false;
    const std::string_view rest = text_.substr(end);
    if (rest.starts_with(" - ") || rest.starts_with(" | ")) return found(rest);
    return false;
  }

  static std::size_t name_end(std::string_view text) {
    std::size_t end = 0;
    while (end < text.size() && end < kMaxNameBytes && is_name(text[end])) ++end;
    return end == kMaxNameBytes ? 0 : end;
  }

  Line& line_;
  std::string_view text_;
  bool numbered_;
  bool at_start_ = true;
  bool at_separator_ = false;
};

}  // namespace

void parse_prefix(Line& line, bool numbered) {
  line.body = 0;
  Prefix(line, numbered).walk();
  if (!line.time_ms) line.time_ms = find_timestamp(line.text.substr(line.body));
}

void NumberedLines::note(std::string_view text) {
  if (text.empty() || (text[0] != ' ' && !is_digit(text[0]))) return;
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  const auto number = text.empty() || !is_digit(text[0]) ? std::nullopt : take_number(text);
  if (!number || !text.starts_with(": ")) return;
  if (lines_++ > 0 && *number < last_) ++descents_;
  last_ = *number;
}

}  // namespace scalewatch::logimport
