#include "server/logimport/timestamp.h"

#include <algorithm>
#include <array>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxSearchBytes = 2048;
constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kDay = 24 * 3600 * kSecond;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Exactly so many digits at `at`; -1 where there are none.
int digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return -1;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

// Days since 1970-01-01 of a date in the Gregorian calendar.
std::int64_t days_of(int year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const int era = year / 400;
  const int of_era = year - era * 400;
  const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
  return static_cast<std::int64_t>(era) * 146097 + day_of_era - 719468;
}

bool valid(int year, int month, int day) {
  return year >= 1970 && year < 2200 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

struct Part {
  std::int64_t ms = 0;
  std::size_t length = 0;
};

// 06:51:29 with ,903 or .903123, and a zone.
Part clock_at(std::string_view text, std::size_t at) {
  const int hour = digits(text, at, 2);
  const int minute = digits(text, at + 3, 2);
  const int second = digits(text, at + 6, 2);
  if (hour < 0 || hour > 24 || minute < 0 || minute > 59 || second < 0 || second > 60) return {};
  if (text[at + 2] != ':' || text[at + 5] != ':') return {};
  Part part{((hour * 60 + minute) * 60 + second) * kSecond, 8};
  if (at + 9 < text.size() && (text[at + 8] == '.' || text[at + 8] == ',') && is_digit(text[at + 9])) {
    std::int64_t unit = 100;
    std::size_t end = at + 9;
    for (; end < text.size() && is_digit(text[end]) && end < at + 18; ++end, unit /= 10) part.ms += (text[end] - '0') * unit;
    part.length = end - at;
  }
  std::size_t end = at + part.length;
  if (end < text.size() && text[end] == 'Z') {
    ++part.length;
  } else if (end + 4 < text.size() && (text[end] == '+' || text[end] == '-') && digits(text, end + 1, 2) >= 0) {
    if (digits(text, end + 3, 2) >= 0) part.length += 5;
    if (text[end + 3] == ':' && digits(text, end + 4, 2) >= 0) part.length += 6;
  }
  return part;
}

// 2023-04-28, 2022/11/08, 2022.11.08, 28/04/2023, 04/28/2023
Part date_at(std::string_view text) {
  if (text.size() < 10) return {};
  if (const int year = digits(text, 0, 4); year >= 0) {
    const char separator = text[4];
    const int month = digits(text, 5, 2);
    const int day = digits(text, 8, 2);
    if ((separator != '-' && separator != '/' && separator != '.') || text[7] != separator || !valid(year, month, day))
      return {};
    return {days_of(year, month, day) * kDay, 10};
  }
  int first = digits(text, 0, 2);
  int second = digits(text, 3, 2);
  const int year = digits(text, 6, 4);
  if (first < 0 || second < 0 || year < 0 || (text[2] != '/' && text[2] != '-' && text[2] != '.') || text[5] != text[2])
    return {};
  if (first > 12) std::swap(first, second);  // the day first
  if (!valid(year, first, second)) return {};
  return {days_of(year, first, second) * kDay, 10};
}

// Nov 29 12:39:16 and Nov  9 12:39:16
Timestamp syslog_at(std::string_view text) {
  static constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (text.size() < 15 || text[3] != ' ' || text[6] != ' ') return {};
  const auto month = std::find(kMonths.begin(), kMonths.end(), text.substr(0, 3));
  if (month == kMonths.end()) return {};
  const int day = text[4] == ' ' ? digits(text, 5, 1) : digits(text, 4, 2);
  const Part clock = clock_at(text, 7);
  if (day < 1 || day > 31 || clock.length == 0) return {};
  constexpr int kLeapYear = 1972;
  return {days_of(kLeapYear, static_cast<int>(month - kMonths.begin()) + 1, day) * kDay + clock.ms, 7 + clock.length, true};
}

// 1667890494.123 or 1667890494: ten digits, as seconds since 1970 have from 2001 to 2286.
Timestamp epoch_at(std::string_view text) {
  const int high = digits(text, 0, 5);
  const int low = digits(text, 5, 5);
  if (high < 10000 || low < 0 || high > 29999) return {};
  Timestamp stamp{(static_cast<std::int64_t>(high) * 100000 + low) * kSecond, 10, true};
  if (text.size() > 11 && text[10] == '.' && is_digit(text[11])) {
    std::int64_t unit = 100;
    std::size_t end = 11;
    for (; end < text.size() && is_digit(text[end]) && end < 20; ++end, unit /= 10) stamp.ms += (text[end] - '0') * unit;
    stamp.length = end;
  }
  const bool ends = stamp.length >= text.size() || text[stamp.length] == ' ' || text[stamp.length] == ']' ||
                    text[stamp.length] == ':' || text[stamp.length] == '\t';
  return ends ? stamp : Timestamp{};
}

}  // namespace

Timestamp timestamp_at(std::string_view text) {
  if (text.size() < 8) return {};
  if (!is_digit(text[0])) return syslog_at(text);
  if (const Part date = date_at(text); date.length > 0) {
    std::size_t at = date.length;
    if (at < text.size() && (text[at] == ' ' || text[at] == 'T' || text[at] == '-' || text[at] == '_')) ++at;
    const Part clock = clock_at(text, at);
    if (clock.length == 0) return {};
    return {date.ms + clock.ms, at + clock.length, true};
  }
  if (const Part clock = clock_at(text, 0); clock.length > 0) return {clock.ms, clock.length, false};
  return epoch_at(text);
}

std::optional<std::int64_t> find_timestamp(std::string_view text) {
  text = text.substr(0, kMaxSearchBytes);
  // Every time with a date has ":dd:" in its clock; the date stands at most twelve bytes before.
  for (std::size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    if (colon + 3 >= text.size() || text[colon + 3] != ':' || colon < 2 || !is_digit(text[colon - 1])) continue;
    for (const std::size_t back : {std::size_t{13}, std::size_t{9}}) {
      if (colon < back) continue;
      if (const Timestamp stamp = timestamp_at(text.substr(colon - back)); stamp.has_date && stamp.length > back)
        return stamp.ms;
    }
  }
  return std::nullopt;
}

}  // namespace scalewatch::logimport
