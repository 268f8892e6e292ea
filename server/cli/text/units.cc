#include "server/cli/text/units.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <optional>

namespace scalewatch::cli::text {

std::string count(std::uint64_t value) {
  if (value < 1000) return fmt::format("{}", value);
  constexpr std::array<char, 6> kPrefixes{'k', 'M', 'G', 'T', 'P', 'E'};
  double scaled = static_cast<double>(value);
  std::size_t prefix = 0;
  scaled /= 1000;
  // 999.5 would print as 1000.
  while (scaled >= 999.5 && prefix + 1 < kPrefixes.size()) {
    scaled /= 1000;
    ++prefix;
  }
  return fmt::format("{:.{}f}{}", scaled, scaled < 99.95 ? 1 : 0, kPrefixes[prefix]);
}

std::string exact(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t pos = digits.size(); pos > 3;) {
    pos -= 3;
    digits.insert(pos, ",");
  }
  return digits;
}

std::string plural(std::uint64_t value, std::string_view word) {
  return fmt::format("{} {}{}", exact(value), word, value == 1 ? "" : "s");
}

std::string magnitude(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size < 1e-3 || size >= 99999.5) return fmt::format("{:.1e}", value);
  return size < 9999.5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

std::string scale(double value) {
  if (std::isfinite(value) && value > 0) {
    int exponent = 0;
    if (std::frexp(value, &exponent) == 0.5) return fmt::format("2^{}", exponent - 1);
  }
  return magnitude(value);
}

std::string percent(double part, double whole) {
  if (whole == 0) return "-";
  const double share = 100 * part / whole;
  if (!std::isfinite(share)) return magnitude(share);
  if (share > 0 && share < 0.05) return "<0.1%";
  if (share < 100 && share >= 99.95) return ">99.9%";
  if (share == 0 || share == 100) return fmt::format("{:.0f}%", share);
  return fmt::format("{:.1f}%", share);
}

std::string ago(std::int64_t ms) {
  const std::int64_t seconds = ms / 1000;
  if (seconds <= 0) return "now";
  if (seconds < 120) return fmt::format("{} s ago", seconds);
  if (seconds < 7'200) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 172'800) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} d ago", seconds / 86400);
}

namespace {

// Empty where the clock that told it is evidently broken.
std::optional<std::time_t> seconds_of(std::int64_t unix_ms) {
  // Years 1 to 9999.
  constexpr std::int64_t kFirst = -62135596800;
  constexpr std::int64_t kLast = 253402300799;
  const std::int64_t seconds = unix_ms / 1000 - (unix_ms % 1000 < 0 ? 1 : 0);
  if (seconds < kFirst || seconds > kLast) return std::nullopt;
  return static_cast<std::time_t>(seconds);
}

}  // namespace

std::string utc(std::int64_t unix_ms) {
  if (unix_ms == 0) return "never";
  const auto seconds = seconds_of(unix_ms);
  return seconds ? fmt::format("{:%Y-%m-%d %H:%M:%S}Z", fmt::gmtime(*seconds)) : fmt::format("{} ms", unix_ms);
}

std::string local(std::int64_t unix_ms) {
  if (unix_ms == 0) return "never";
  const auto seconds = seconds_of(unix_ms);
  return seconds ? fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(*seconds)) : fmt::format("{} ms", unix_ms);
}

}  // namespace scalewatch::cli::text
