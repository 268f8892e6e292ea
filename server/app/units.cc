#include "server/app/units.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <limits>

namespace scalewatch::app {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
constexpr std::array<Unit, 5> kDurations = {{{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr std::array<Unit, 4> kSizes = {{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};

template <class Units>
std::optional<std::int64_t> parse(std::string_view text, const Units& units) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

template <class Units>
std::string format(std::int64_t value, const Units& units) {
  for (const Unit& unit : units) {
    if (value >= unit.factor && value % unit.factor == 0) return std::to_string(value / unit.factor) + std::string(unit.name);
  }
  return "0" + std::string(units.back().name);
}

enum class Family : std::uint8_t { kNone, kV4, kV6 };

Family family(const std::string& host, std::array<unsigned char, 16>& bytes) {
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return Family::kV4;
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return Family::kV6;
  return Family::kNone;
}

}  // namespace

std::optional<std::int64_t> parse_duration(std::string_view text) {
  return parse(text, kDurations);
}
std::string format_duration(std::int64_t milliseconds) {
  return format(milliseconds, kDurations);
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto bytes = parse(text, kSizes);
  return bytes ? std::optional(static_cast<std::uint64_t>(*bytes)) : std::nullopt;
}
std::string format_size(std::uint64_t bytes) {
  return format(static_cast<std::int64_t>(bytes), kSizes);
}

bool Address::loopback() const {
  std::array<unsigned char, 16> bytes{};
  switch (family(host, bytes)) {
    case Family::kV4:
      return bytes[0] == 127;
    case Family::kV6:
      return bytes == std::array<unsigned char, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    case Family::kNone:
      break;
  }
  return false;
}

std::string Address::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<Address> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  Address address{host == "localhost" ? "127.0.0.1" : std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) return std::nullopt;
  std::array<unsigned char, 16> bytes{};
  const Family kind = family(address.host, bytes);
  if (kind == Family::kNone || (kind == Family::kV6) != brackets) return std::nullopt;
  return address;
}

}  // namespace scalewatch::app
