#include "server/logimport/number.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxDigits = 400;  // longer runs of digits are no number of a trainer

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
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

// A message may be glued to a number ("nanGradient overflow"), so an upper-case letter may follow a word.
bool word_ends(std::string_view text, std::size_t at) {
  return at >= text.size() || (!is_lower(text[at]) && !is_digit(text[at]) && text[at] != '_');
}

bool parse_word(std::string_view text, bool negative, std::size_t sign, Number& number) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::string_view word : {"infinity", "inf", "nan"}) {
    if (!begins(text, word) || !word_ends(text, word.size())) continue;
    number.value = word == "nan" ? std::numeric_limits<double>::quiet_NaN() : infinity;
    if (negative && word != "nan") number.value = -number.value;
    number.quantum = 0;
    number.integer = false;
    number.length = sign + word.size();
    return true;
  }
  return false;
}

// Exactly representable powers: a whole number below 2^53 times or by one of these is rounded once, so it is the nearest double
// (W. Clinger, "How to read floating point numbers accurately", PLDI 1990).
constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kMaxPower = 22;
constexpr std::size_t kMaxExactDigits = 15;

// The same below 1, each rounded once.
constexpr auto kFractions = [] {
  std::array<double, kMaxPower + 1> fractions{};
  for (std::size_t i = 0; i < fractions.size(); ++i) fractions[i] = 1 / kPowers[i];
  return fractions;
}();

double power_of_ten(int exponent) {
  if (exponent <= 0 && exponent >= -kMaxPower) return kFractions[static_cast<std::size_t>(-exponent)];
  return std::pow(10.0, exponent);
}

// Reads digits from `at` on and returns where they end.
std::size_t take_digits(std::string_view text, std::size_t at, std::uint64_t& value) {
  // Eight bytes at a time, as D. Lemire's fast_float does: most numbers are shorter, and no branch depends on their length.
  static constexpr std::uint64_t kTens[] = {1, 10, 100, 1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
  while (at + 8 <= text.size()) {
    constexpr std::uint64_t kEach = 0x0101010101010101;
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, sizeof(eight));
    eight ^= '0' * kEach;
    const std::uint64_t others = ((eight + (0x80 - 10) * kEach) | eight) & 0x80 * kEach;
    const auto digits = static_cast<std::size_t>(std::countr_zero(others)) / 8;  // 64 / 8 where all of them are
    if (digits == 0) return at;
    eight <<= 64 - 8 * digits;
    eight = eight * 10 + (eight >> 8);
    eight = ((eight & 0x000000ff000000ff) * (100 + (1'000'000ULL << 32)) +
             (eight >> 16 & 0x000000ff000000ff) * (1 + (10'000ULL << 32))) >>
            32;
    value = value * kTens[digits] + eight;
    at += digits;
    if (digits < 8) return at;
  }
  for (; at < text.size() && is_digit(text[at]); ++at) value = value * 10 + static_cast<std::uint64_t>(text[at] - '0');
  return at;
}

// Thousands in groups: 1,234,567. Returns the bytes of the whole integer part, 0 when it is not grouped.
std::size_t grouped(std::string_view text, double& value) {
  std::size_t at = 0;
  double sum = 0;
  while (at < text.size() && is_digit(text[at]) && at < 4) sum = sum * 10 + (text[at++] - '0');
  if (at == 0 || at > 3 || at >= text.size() || (text[at] != ',' && text[at] != '_')) return 0;
  const char separator = text[at];
  std::size_t groups = 0;
  while (at + 3 < text.size() && text[at] == separator && is_digit(text[at + 1]) && is_digit(text[at + 2]) &&
         is_digit(text[at + 3])) {
    if (at + 4 < text.size() && is_digit(text[at + 4])) break;
    sum = sum * 1000 + (text[at + 1] - '0') * 100 + (text[at + 2] - '0') * 10 + (text[at + 3] - '0');
    at += 4;
    if (++groups == 5) break;  // beyond 2^53 counting ends
  }
  if (groups == 0) return 0;
  value = sum;
  return at;
}

bool parse_plain(std::string_view text, Separators separators, Number& number) {
  const bool signed_text = !text.empty() && (text[0] == '-' || text[0] == '+');
  const std::size_t sign = signed_text ? 1 : 0;
  const bool negative = signed_text && text[0] == '-';
  const std::string_view digits = text.substr(sign);
  if (digits.empty()) return false;
  if (!is_digit(digits[0]) && !(digits[0] == '.' && digits.size() > 1 && is_digit(digits[1]))) {
    return parse_word(digits, negative, sign, number);
  }
  std::uint64_t mantissa = 0;  // wraps beyond kMaxExactDigits, and is not used then
  std::size_t at = take_digits(digits, 0, mantissa);
  if (separators == Separators::kThousands && at < digits.size() && (digits[at] == ',' || digits[at] == '_')) {
    const std::size_t length = grouped(digits, number.value);
    if (length > 0 && (length >= digits.size() || digits[length] != '.')) {
      if (negative) number.value = -number.value;
      number.integer = true;
      number.quantum = 1;
      number.length = sign + length;
      return true;
    }
  }
  const std::size_t whole = at;
  std::size_t decimals = 0;
  number.integer = true;
  // A point without digits behind it ends a sentence ("is 2. Reducing"), unless it stands in a list or call ("[1., 2.]").
  const auto ends_number = [](char c) {
    return is_digit(c) || c == ',' || c == ')' || c == ']' || c == '}' || c == 'e' || c == 'E';
  };
  if (at + 1 < digits.size() && digits[at] == '.' && ends_number(digits[at + 1])) {
    number.integer = false;
    ++at;
    const std::size_t first = at;
    at = take_digits(digits, first, mantissa);
    decimals = at - first;
  }
  int exponent = 0;
  std::size_t end = at;
  if (at + 1 < digits.size() && (digits[at] == 'e' || digits[at] == 'E')) {
    std::size_t from = at + 1;
    const bool minus = digits[from] == '-';
    if (digits[from] == '-' || digits[from] == '+') ++from;
    std::size_t to = from;
    while (to < digits.size() && is_digit(digits[to]) && to - from < 6) {
      exponent = exponent * 10 + (digits[to++] - '0');
    }
    if (to > from) {
      end = to;
      number.integer = false;
      if (minus) exponent = -exponent;
    } else {
      exponent = 0;
    }
  }
  if (end > kMaxDigits) return false;
  const int power = exponent - static_cast<int>(decimals);
  if (whole + decimals <= kMaxExactDigits && power >= -kMaxPower && power <= kMaxPower) {
    const auto exact = static_cast<double>(mantissa);
    number.value = power < 0 ? exact / kPowers[-power] : exact * kPowers[power];
  } else {
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + end, number.value);
    if (error == std::errc::result_out_of_range) {
      number.value = exponent < 0 ? 0 : std::numeric_limits<double>::infinity();
    } else if (error != std::errc() || rest != digits.data() + end) {
      return false;
    }
  }
  if (negative) number.value = -number.value;
  number.quantum = power_of_ten(power);
  number.length = sign + end;
  return true;
}

}  // namespace

bool parse_number(std::string_view text, Separators separators, Number& number) {
  constexpr std::string_view kTensor = "tensor(";
  if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
    if (!parse_plain(text.substr(1), separators, number)) return false;
    if (number.length + 1 >= text.size() || text[number.length + 1] != text[0]) return false;
    number.length += 2;
    return true;
  }
  if (text.starts_with(kTensor)) {
    if (!parse_plain(text.substr(kTensor.size()), separators, number)) return false;
    const std::size_t close = text.substr(0, 200).find(')', kTensor.size());
    number.length = close == std::string_view::npos ? kTensor.size() + number.length : close + 1;
    return true;
  }
  return parse_plain(text, separators, number);
}

std::optional<Number> parse_number(std::string_view text, Separators separators) {
  std::optional<Number> number(std::in_place);
  if (!parse_number(text, separators, *number)) number.reset();
  return number;
}

}  // namespace scalewatch::logimport
