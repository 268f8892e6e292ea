#include "server/engine/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace scalewatch::engine {

namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0 = broken
};

// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t value = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (overlong || (value >= 0xD800 && value <= 0xDFFF) || value > 0x10FFFF) return {};
  return {value, bytes};
}

bool is_control(std::uint32_t value) {
  return value < 0x20 || (value >= 0x7F && value < 0xA0);
}

}  // namespace

std::string name_fault(std::string_view name, std::size_t max_bytes) {
  if (name.empty()) return "is empty";
  if (name.size() > max_bytes) return fmt::format("is longer than {} bytes", max_bytes);
  while (!name.empty()) {
    const CodePoint point = decode(name);
    if (point.bytes == 0) return "is not valid UTF-8";
    if (is_control(point.value)) return "has a control character";
    name.remove_prefix(point.bytes);
  }
  return {};
}

std::string clipped(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

std::string shown(std::string_view text) {
  std::string out;
  constexpr std::size_t kMaxBytes = 64;
  while (!text.empty() && out.size() < kMaxBytes) {
    const CodePoint point = decode(text);
    const std::size_t bytes = std::max<std::size_t>(point.bytes, 1);
    if (point.bytes == 0 || is_control(point.value)) {
      out += '?';
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return text.empty() ? out : out + "...";
}

std::string to_hex(const Incarnation& incarnation) {
  return fmt::format("{:02x}", fmt::join(incarnation, ""));
}

Incarnation incarnation_from_hex(std::string_view hex) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw std::runtime_error("incarnation: not a hexadecimal digit");
  };
  Incarnation out{};
  if (hex.size() != 2 * out.size()) throw std::runtime_error("incarnation: not 32 hexadecimal digits");
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  return out;
}

}  // namespace scalewatch::engine
