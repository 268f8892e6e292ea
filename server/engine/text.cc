#include "server/engine/text.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

#include "server/names/escape.h"

namespace scalewatch::engine {

namespace {

bool is_control(char32_t value) {
  return value < 0x20 || (value >= 0x7F && value < 0xA0);
}

}  // namespace

std::string name_fault(std::string_view name, std::size_t max_bytes) {
  if (name.empty()) return "is empty";
  if (name.size() > max_bytes) return fmt::format("is longer than {} bytes", max_bytes);
  while (!name.empty()) {
    const names::CodePoint point = names::decode(name, 0);
    if (!point.valid) return "is not valid UTF-8";
    if (is_control(point.value)) return "has a control character";
    name.remove_prefix(point.length);
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
    const names::CodePoint point = names::decode(text, 0);
    if (!point.valid || is_control(point.value)) {
      out += '?';
    } else {
      out += text.substr(0, point.length);
    }
    text.remove_prefix(point.length);
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
