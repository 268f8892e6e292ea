// Numbers as people read them. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scalewatch::cli::text {

// 999, 1.2k, 3.4M, 5.6G, ... at most five columns.
std::string count(std::uint64_t value);
// Every digit, in groups of three: 1,234,567.
std::string exact(std::uint64_t value);
// "1 attempt", "1,234 attempts", "2 more ranks": the number, the word, and an s where it is not one.
std::string plural(std::uint64_t value, std::string_view word);
// 0.25, 128, 1.0e-07, NaN, Inf, -Inf: at most four significant digits.
std::string magnitude(double value);
// 2^16 for powers of two, else as magnitude().
std::string scale(double value);
// part of whole as 12.5%; never 0.0% for something and never 100.0% for less than all; "-" when whole is 0.
std::string percent(double part, double whole);
// "12 s ago" for a moment that lies `ms` back; "now" for less than a second or the future.
std::string ago(std::int64_t ms);
// "2026-05-04 03:02:01Z" for Unix milliseconds; "never" for 0.
std::string utc(std::int64_t unix_ms);
// "2026-05-04 05:02:01" in this machine's time zone, likewise.
std::string local(std::int64_t unix_ms);

}  // namespace scalewatch::cli::text
