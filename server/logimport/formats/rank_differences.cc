// A line that names two ranks and says that they do not hold the same, whoever wrote it: "Step 2, Parameter 'fc.weight':
// Divergence detected between rank 0 and rank 1", "loss scale mismatch: rank0=1024 rank3=512".
#include <algorithm>

#include "server/logimport/formats/formats.h"
#include "server/logimport/number.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"diverge",     "differ",   "mismatch",     "not equal",
                                         "out of sync", "disagree", "not the same", "inconsistent"};
constexpr std::string_view kTopics[] = {"param", "weight", "bias", "scale", "loss", "grad", "checksum", "tensor", "replica"};
constexpr std::string_view kDenials[] = {"no ", "not ", "n't ", "without ", "0 ", "never "};
constexpr std::size_t kMaxBytes = 512;  // of a message that a person wrote
constexpr std::size_t kMaxDetailBytes = 200;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return lower(c) >= 'a' && lower(c) <= 'z';
}

std::size_t find_lower(std::string_view text, std::string_view word, std::size_t from = 0) {
  const auto found = std::search(text.begin() + static_cast<std::ptrdiff_t>(std::min(from, text.size())), text.end(),
                                 word.begin(), word.end(), [](char a, char b) { return lower(a) == b; });
  return found == text.end() ? std::string_view::npos : static_cast<std::size_t>(found - text.begin());
}

// "rank 0", "rank0", "ranks 0 and 1", "rank: 3", "rank=3": the ranks that a message names, at most two.
struct Ranks {
  std::optional<std::uint32_t> first, second;

  void add(std::string_view digits) {
    const auto number = parse_number(digits);
    const auto value = number ? number->count() : std::nullopt;
    if (!value || *value > 1 << 20) return;
    const auto rank = static_cast<std::uint32_t>(*value);
    if (!first) {
      first = rank;
    } else if (!second && rank != *first) {
      second = rank;
    }
  }
};

Ranks ranks_in(std::string_view text) {
  Ranks ranks;
  for (std::size_t at = find_lower(text, "rank"); at != std::string_view::npos; at = find_lower(text, "rank", at + 4)) {
    if (at > 0 && is_letter(text[at - 1])) continue;
    std::size_t number = at + 4;
    const bool many = number < text.size() && lower(text[number]) == 's';
    if (many) ++number;
    const auto separator = [](char c) { return c == ' ' || c == ':' || c == '=' || c == '_' || c == '#'; };
    while (number < text.size() && separator(text[number])) ++number;
    if (number >= text.size() || !is_digit(text[number])) continue;
    ranks.add(text.substr(number));
    if (!many) continue;
    while (number < text.size() && is_digit(text[number])) ++number;
    for (const std::string_view joint : {" and ", ", ", " vs ", " & ", "/"}) {
      if (text.substr(number).starts_with(joint)) ranks.add(text.substr(number + joint.size()));
    }
  }
  return ranks;
}

// "do not differ", "no mismatch": the denial stands right before the word.
bool denied(std::string_view text, std::size_t word) {
  const std::string_view before = text.substr(0, word);
  return std::any_of(std::begin(kDenials), std::end(kDenials), [&](std::string_view denial) {
    if (before.size() < denial.size()) return false;
    const std::size_t at = before.size() - denial.size();
    const bool whole = at == 0 || !(is_letter(before[at - 1]) || is_digit(before[at - 1])) || denial[0] == 'n';
    return find_lower(before.substr(at), denial) == 0 && whole;
  });
}

// What people write about ranks reasons, and prints no value: "the losses of rank 0 and rank 1 differ because we shuffle".
bool is_prose(std::string_view text) {
  static constexpr std::string_view kReasoning[] = {"if",      "when",  "because", "since", "will", "would",   "should", "may",
                                                    "might",   "could", "can",     "must",  "we",   "you",     "why",    "how",
                                                    "whether", "which", "usually", "often", "then", "however", "i"};
  constexpr std::size_t kLongSentence = 12;
  constexpr std::size_t kLongestMessage = 24;
  std::size_t words = 0;
  std::size_t reasoning = 0;
  bool value = text.find('=') != std::string_view::npos;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_letter(text[i])) {
      value = value || (text[i] == '.' && i > 0 && is_digit(text[i - 1]) && i + 1 < text.size() && is_digit(text[i + 1]));
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && is_letter(text[i])) ++i;
    const std::string_view word = text.substr(begin, i - begin);
    ++words;
    reasoning += std::any_of(std::begin(kReasoning), std::end(kReasoning),
                             [&](std::string_view one) { return one.size() == word.size() && find_lower(word, one) == 0; })
                     ? 1
                     : 0;
  }
  if (value) return reasoning >= 3;
  return reasoning >= 2 || (reasoning == 1 && words > kLongSentence) || words > kLongestMessage;
}

// The quoted name behind "parameter" or "tensor", else the first quoted one.
std::string_view quoted(std::string_view text) {
  for (const char quote : {'\'', '"', '`'}) {
    const std::size_t open = text.find(quote);
    const std::size_t close = open == std::string_view::npos ? open : text.find(quote, open + 1);
    if (close != std::string_view::npos && close > open + 1 && close - open < 200)
      return text.substr(open + 1, close - open - 1);
  }
  return {};
}

std::optional<std::int64_t> step_in(std::string_view text) {
  for (const std::string_view word : {"step", "iteration", "iter"}) {
    std::size_t at = find_lower(text, word);
    if (at == std::string_view::npos || (at > 0 && is_letter(text[at - 1]))) continue;
    at += word.size();
    while (at < text.size() && (text[at] == ' ' || text[at] == ':' || text[at] == '=')) ++at;
    const auto number = parse_number(text.substr(at));
    if (number && number->integer) return number->count();
  }
  return std::nullopt;
}

class RankDifferences : public Format {
 public:
  std::string_view name() const override { return "rank_differences"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& out) override {
    const std::string_view text = line.text.substr(line.body, kMaxBytes);
    if (at < line.body || at >= line.body + text.size() || denied(line.text, at)) return;
    const Ranks ranks = ranks_in(text);
    if (!ranks.second) return;
    const bool topic = std::any_of(std::begin(kTopics), std::end(kTopics),
                                   [&](std::string_view word) { return find_lower(text, word) != std::string_view::npos; });
    if (!topic || is_prose(text)) return;
    Reading& reading = out.add(Reading::Kind::kRanksDiffer, line.body);
    reading.rank = ranks.first;
    reading.other_rank = ranks.second;
    reading.step = step_in(text);
    reading.tensor = quoted(text);
    reading.detail = text.substr(0, kMaxDetailBytes);
    out.claim(line.body, line.body + text.size());
  }
};

}  // namespace

std::unique_ptr<Format> make_rank_differences() {
  return std::make_unique<RankDifferences>();
}

}  // namespace scalewatch::logimport
