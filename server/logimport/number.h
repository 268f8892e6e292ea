// Numbers as logs print them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace scalewatch::logimport {

struct Number {
  double value = 0;
  double quantum = 0;      // what one unit of its last printed digit is worth; 0 for NaN and Inf
  bool integer = false;    // printed without point and exponent
  std::size_t length = 0;  // bytes read

  // As a counter; absent when it is negative, fractional, not finite or above 2^53.
  std::optional<std::int64_t> count() const {
    if (!(value >= 0 && value <= 9007199254740992.0)) return std::nullopt;
    const auto whole = static_cast<std::int64_t>(value);
    return static_cast<double>(whole) == value ? std::optional(whole) : std::nullopt;
  }
};

// How a number may be printed beyond 12, -1.5, 1e-316, .5, 65536., inf, -inf, nan, -nan, NaN, Infinity.
enum class Separators : std::uint8_t {
  kNone,       // a comma ends the number
  kThousands,  // 1,234,567 and 1_234_567 are one number: only groups of exactly three digits
};

// The number that text begins with; blanks before it are not skipped. Also reads tensor(1.5, ...) and a number in quotes, with
// length up to the end of the whole. Absent where there is none, or where a word only begins like one ("nano", "info",
// "12abc" is 12: units follow directly). Beyond double's range it is 0 or Inf. Locale-free, allocates nothing.
std::optional<Number> parse_number(std::string_view text, Separators separators = Separators::kNone);
// The same into its place: a number that was just written and is copied costs a wait for each half. False: there is none, and
// `number` holds nothing that matters.
bool parse_number(std::string_view text, Separators separators, Number& number);

}  // namespace scalewatch::logimport
