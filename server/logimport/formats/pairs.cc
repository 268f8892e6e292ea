#include "server/logimport/formats/pairs.h"

#include <algorithm>
#include <cstdint>

namespace scalewatch::logimport {
namespace {

enum CharKind : std::uint8_t { kOther, kBlank, kJoin, kDigit, kLetter };  // the last two make words

constexpr std::array<CharKind, 256> make_kinds() {
  std::array<CharKind, 256> kinds{};
  kinds[' '] = kinds['\t'] = kBlank;
  for (int c = '0'; c <= '9'; ++c) kinds[static_cast<std::size_t>(c)] = kDigit;
  for (int c = 'a'; c <= 'z'; ++c) kinds[static_cast<std::size_t>(c)] = kinds[static_cast<std::size_t>(c - 32)] = kLetter;
  kinds['_'] = kLetter;
  for (const char c : {'/', '.', '@', '-'}) kinds[static_cast<std::size_t>(c)] = kJoin;  // within a word
  return kinds;
}
constexpr auto kKinds = make_kinds();
CharKind kind(char c) {
  return kKinds[static_cast<unsigned char>(c)];
}
bool is_digit(char c) {
  return kind(c) == kDigit;
}
bool is_blank(char c) {
  return kind(c) == kBlank;
}
bool is_letter(char c) {
  return kind(c) == kLetter;
}
bool in_word(char c) {
  return kind(c) >= kDigit;
}

constexpr std::size_t kMaxShortened = 5;  // bytes of a word that a point shortens
constexpr std::size_t kMaxKeyWords = 7;   // "number of skipped iterations" has four

// "loss is 0.5" and "avg loss so far is 0.5": a sentence that names its number.
std::string_view without_verb(std::string_view key) {
  for (const std::string_view verb : {" is", " was", " so far"}) {
    if (key.ends_with(verb)) key.remove_suffix(verb.size());
  }
  return key;
}

}  // namespace

// One pass from left to right. A phrase is the words since the last thing that ends one; the number that follows takes it.
class PairScanner {
 public:
  PairScanner(Pairs& out, std::string_view text) : out_(out), text_(text) {}

  void scan() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      switch (kind(c)) {
        case kBlank:
          blanks();
          break;
        case kLetter:
          word();
          break;
        case kDigit:
          number();
          break;
        default:
          sign(c);
      }
    }
    drop_phrase();
  }

 private:
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void drop_phrase() {
    if (phrase_words_ == 0) return;
    out_.loose_words_ += phrase_words_;
    separator_ = ' ';
    phrase_words_ = 0;
    phrase_wide_ = false;
  }

  void blanks() {
    const std::size_t begin = at_;
    bool tab = false;
    for (; at_ < text_.size() && is_blank(text_[at_]); ++at_) tab = tab || text_[at_] == '\t';
    gap_ = tab || at_ - begin > 1;
  }

  // "number of nan iterations": the words before say that what follows is counted, not that it is the value.
  bool counts_what_follows() const {
    if (phrase_words_ == 0 || separator_ != ' ') return false;
    const std::string_view last = text_.substr(word_begin_, phrase_end_ - word_begin_);
    return last == "of" || last == "number" || last == "num" || last == "count" || last == "no";
  }

  // nan, inf, infinity
  static bool begins_value(std::string_view word) { return (word[0] | 32) == 'n' || (word[0] | 32) == 'i'; }

  // 1 when the word is nan, inf or infinity and stands as a value; 2 for None and null.
  int value_word(std::string_view word) const {
    if (phrase_words_ == 0 && !(pending_bracket_ != 0 && last_end_ > 0)) return 0;
    if (counts_what_follows()) return 0;
    if (word.size() == 3 || word.size() == 8) return begins_value(word) && parse_number(word) ? 1 : 0;
    return separator_ != ' ' && (word == "None" || word == "null") ? 2 : 0;
  }

  void word() {
    const std::size_t begin = at_;
    const std::string_view text = text_;
    std::size_t end = begin;
    for (;;) {
      while (end < text.size() && in_word(text[end])) ++end;
      if (end + 1 >= text.size() || kind(text[end]) != kJoin || !in_word(text[end + 1])) break;
      if (text[end] == '-' && is_digit(text[end + 1])) break;  // loss-0.5
      ++end;
    }
    at_ = end;
    const std::string_view word = text_.substr(begin, at_ - begin);
    // "nanGradient": a message glued to a number.
    if (word.size() > 3 && separator_ != ' ' && begins_value(word) && parse_number(word, Separators::kNone, next().number)) {
      at_ = begin;
      take();
      return;
    }
    if (const int value = value_word(word); value != 0) {
      at_ = begin;
      if (value == 1) {
        parse_number(word, Separators::kNone, next().number);
        take();
      } else {
        next().number = Number();
        next().number.length = word.size();
        take(true);
      }
      return;
    }
    if (separator_ != ' ' && phrase_words_ > 0) {
      // tensor(0.5), np.float64(0.5), array([0.5]): the number within is meant.
      if (at_ < text_.size() && text_[at_] == '(') {
        ++at_;
        return;
      }
      drop_phrase();  // a value that is no number
    }
    const bool bracketed = pending_bracket_ == '[' && at_ < text_.size() && text_[at_] == ']';
    if (phrase_words_ > 0 && gap_) drop_phrase();
    if (phrase_words_ == 0) {
      phrase_begin_ = begin;
      phrase_wide_ = gap_;
    }
    if (++phrase_words_ > kMaxKeyWords) {  // prose: only the last words can be a key
      out_.loose_words_ += phrase_words_ - 1;
      phrase_begin_ = begin;
      phrase_words_ = 1;
    }
    phrase_end_ = at_;
    word_begin_ = begin;
    gap_ = false;
    pending_bracket_ = 0;
    last_end_ = 0;
    if ((!named_ || bracketed) && out_.words_count_ < Pairs::kMaxWords) out_.words_[out_.words_count_++] = word;
    // lr(Cosine): and Epoch(train): what stands in the parentheses belongs to the key. scaler.get_scale()= is one, too.
    if (at_ + 1 < text_.size() && text_[at_] == '(' && (is_letter(text_[at_ + 1]) || text_[at_ + 1] == ')')) {
      const std::size_t close = text_.substr(0, std::min(text_.size(), at_ + 40)).find(')', at_);
      if (close != std::string_view::npos) {
        std::size_t next = close + 1;
        while (next < text_.size() && is_blank(text_[next])) ++next;
        if (next < text_.size() && (text_[next] == ':' || text_[next] == '=' || text_[next] == '[')) {
          at_ = phrase_end_ = close + 1;
        }
      }
    }
  }

  void sign(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '-' || c == '+' || c == '.') {
      const bool number_follows = is_digit(peek(1)) || (peek(1) == '.' && is_digit(peek(2)));
      const bool value_wanted = phrase_words_ > 0 || (pending_bracket_ != 0 && last_end_ > 0);
      const bool word_follows = c != '.' && value_wanted && is_letter(peek(1)) && parse_number(text_.substr(at_)).has_value();
      if ((number_follows || word_follows) && (at_ == 0 || !is_letter(text_[at_ - 1]))) {
        number();
        return;
      }
      // "Avg. loss", but not the end of a sentence.
      if (c == '.' && phrase_words_ > 0 && phrase_end_ == at_ && at_ - word_begin_ <= kMaxShortened) {
        ++at_;
        return;
      }
      ++at_;
      drop_phrase();
      last_end_ = 0;
      return;
    }
    if (c == '"' || c == '\'') {
      ++at_;
      return;
    }
    if (byte >= 0x80) {
      non_ascii();
      return;
    }
    if ((c == ':' || c == '=') && phrase_words_ > 0) {
      ++at_;
      if (c == '=' && peek(0) == '=') {
        drop_phrase();
        while (at_ < text_.size() && text_[at_] == '=') ++at_;
        return;
      }
      separator_ = c;
      gap_ = false;
      return;
    }
    if ((c == '[' || c == '(') && (phrase_words_ > 0 || last_end_ > 0)) {
      // Epoch [1], loss (0.5), lr=[0.1]: the number behind it may belong to what stands before.
      ++at_;
      pending_bracket_ = c;
      return;
    }
    ++at_;
    if (c == '[' || c == '(') {
      pending_bracket_ = c;
      return;
    }
    if ((c == ']' || c == ')') && last_end_ > 0) return;
    if (c == '%') return;
    drop_phrase();
    pending_bracket_ = 0;
    last_end_ = 0;
  }

  // Words of other languages and block characters of bars end a phrase; a full-width colon separates.
  void non_ascii() {
    if (text_.compare(at_, 3, "\xEF\xBC\x9A") == 0 && phrase_words_ > 0) {
      separator_ = ':';
      gap_ = false;
      at_ += 3;
      return;
    }
    const bool glued = phrase_words_ > 0 && phrase_end_ == at_;
    while (at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x80 && text_.compare(at_, 3, "\xEF\xBC\x9A") != 0)
      ++at_;
    if (glued) {  // an ending of another language on the word: "Loss는 0.5"
      return;
    }
    if (text_.compare(at_, 3, "\xEF\xBC\x9A") == 0) at_ += 3;
    drop_phrase();
    pending_bracket_ = 0;
    last_end_ = 0;
    gap_ = false;
  }

  // Dates, times, versions and addresses: no values.
  bool skip_stamp(std::size_t after) {
    const char c = after < text_.size() ? text_[after] : '\0';
    const char next = after + 1 < text_.size() ? text_[after + 1] : '\0';
    if (!((c == ':' || c == '-' || c == '.') && is_digit(next)) && !(c == 'T' && is_digit(next)) &&
        !(c == 'x' && is_digit(next))) {
      return false;
    }
    while (after < text_.size()) {
      const char d = text_[after];
      if (is_digit(d) ||
          ((d == ':' || d == '-' || d == '.' || d == '/' || d == 'T' || d == 'Z' || d == '+' || d == ',' || d == 'x') &&
           after + 1 < text_.size() && is_digit(text_[after + 1]))) {
        ++after;
      } else {
        break;
      }
    }
    at_ = after;
    return true;
  }

  void number() {
    // "0,500" is no thousand.
    const bool thousands = text_[at_] != '0';
    Number& number = next().number;
    if (!parse_number(text_.substr(at_), thousands ? Separators::kThousands : Separators::kNone, number)) {
      ++at_;
      return;
    }
    const std::size_t after = at_ + number.length;
    if (skip_stamp(after)) {
      drop_phrase();
      pending_bracket_ = 0;
      last_end_ = 0;
      return;
    }
    take();
  }

  std::size_t skip_blanks(std::size_t at) const {
    while (at < text_.size() && is_blank(text_[at])) ++at;
    return at;
  }

  // The pair that is being read.
  Pair& next() { return out_.pairs_[out_.count_]; }

  // Its number stands at at_.
  void take(bool missing = false) {
    const std::size_t begin = at_;
    at_ += next().number.length;
    // Parentheses behind a value: its mean.
    if (pending_bracket_ == '(' && last_end_ > 0 && phrase_words_ == 0 && out_.count_ > 0 &&
        !out_.pairs_[out_.count_ - 1].second && peek(0) == ')') {
      Pair& last = out_.pairs_[out_.count_ - 1];
      last.second = next().number;
      last.end = ++at_;
      pending_bracket_ = 0;
      last_end_ = at_;
      return;
    }
    if (out_.count_ == Pairs::kMax) {
      drop_phrase();
      return;
    }
    Pair& pair = out_.pairs_[out_.count_++];
    const bool named = phrase_words_ > 0;
    pair.key = named ? text_.substr(phrase_begin_, phrase_end_ - phrase_begin_) : std::string_view();
    pair.separator = named ? separator_ : ' ';
    if (named && separator_ == ' ' && phrase_words_ > 1) pair.key = without_verb(pair.key);
    pair.wide = named && phrase_wide_;
    named_ = named_ || named;
    pair.percent = pair.unit = false;
    pair.second.reset();
    pair.of.reset();
    pair.bracket = pending_bracket_;
    pair.follows = phrase_words_ == 0 && last_end_ > 0;
    pair.missing = missing;
    pair.begin = phrase_words_ > 0 ? phrase_begin_ : begin;
    phrase_words_ = 0;
    phrase_wide_ = false;
    separator_ = ' ';
    pending_bracket_ = 0;
    if (const std::size_t slash = skip_blanks(at_); slash < text_.size() && text_[slash] == '/') {
      const std::size_t from = skip_blanks(slash + 1);
      if (from < text_.size() && is_digit(text_[from]) &&
          parse_number(text_.substr(from), Separators::kNone, pair.of.emplace())) {
        const std::size_t after = from + pair.of->length;
        if (after < text_.size() && text_[after] == '/') {  // a date
          --out_.count_;
          at_ = after;
          while (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '/')) ++at_;
          last_end_ = 0;
          return;
        }
        at_ = after;
      } else {
        pair.of.reset();
      }
    }
    if (peek(0) == '%') {
      pair.percent = true;
      ++at_;
    } else if (at_ < text_.size() && is_letter(text_[at_]) &&
               !(text_[at_] >= 'A' && text_[at_] <= 'Z' && is_letter(peek(1)) && peek(1) >= 'a')) {
      // Letters at once: a unit. A capital word ("0.5Gradient") is a message glued to it.
      pair.unit = true;
      while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '/')) ++at_;
    }
    pair.end = at_;
    last_end_ = at_;
    gap_ = false;
  }

  Pairs& out_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t phrase_begin_ = 0;
  std::size_t word_begin_ = 0;  // of the phrase's last word
  std::size_t phrase_end_ = 0;
  std::size_t phrase_words_ = 0;
  std::size_t last_end_ = 0;  // of the number before, while nothing but blanks and brackets follows it; else 0
  char separator_ = ' ';
  char pending_bracket_ = 0;
  bool gap_ = false;
  bool phrase_wide_ = false;
  bool named_ = false;  // a number with a key was seen
};

void Pairs::read(std::string_view text) {
  clear();
  PairScanner(*this, text).scan();
}

void Pairs::add(std::string_view key, const Number& number) {
  if (count_ == kMax) return;
  Pair& pair = pairs_[count_++];
  pair = Pair();
  pair.key = key;
  pair.separator = ':';
  pair.number = number;
}

const Pair* Pairs::find(std::string_view key) const {
  for (const Pair& pair : *this) {
    if (pair.key == key) return &pair;
  }
  return nullptr;
}

}  // namespace scalewatch::logimport
