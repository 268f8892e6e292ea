// Values of the configuration as people write them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace scalewatch::app {

// "50ms", "2s", "10min", "1h", "7d": a whole number and a unit. Milliseconds; nothing for anything else.
std::optional<std::int64_t> parse_duration(std::string_view text);
// With the largest unit that leaves a whole number; "0ms" for zero.
std::string format_duration(std::int64_t milliseconds);

// "4096B", "64KiB", "8MiB", "1GiB". Bytes; nothing for anything else.
std::optional<std::uint64_t> parse_size(std::string_view text);
std::string format_size(std::uint64_t bytes);

// A network address to listen on.
struct Address {
  std::string host;  // an IP address, without brackets
  std::uint16_t port = 0;

  [[nodiscard]] bool loopback() const;
  [[nodiscard]] std::string text() const;  // "127.0.0.1:7462", "[::1]:7462"
};
// "127.0.0.1:7462", "[::1]:7462", "localhost:7462" (= 127.0.0.1); port 0 = any free one. Nothing for anything else.
std::optional<Address> parse_address(std::string_view text);

}  // namespace scalewatch::app
