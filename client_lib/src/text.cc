#include "client_lib/src/text.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace scalewatch::client {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

bool is_clean_utf8(std::string_view text) noexcept {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : (lead >> 5) == 0x6 ? 2 : (lead >> 4) == 0xE ? 3 : (lead >> 3) == 0x1E ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    std::uint32_t code = length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next >> 6) != 0x2) return false;
      code = (code << 6) | (next & 0x3FU);
    }
    constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) return false;
    i += length;
  }
  return true;
}

bool is_identifier(std::string_view text) noexcept {
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_server_address(std::string_view text) noexcept {
  if (text.size() > 300 || std::ranges::any_of(text, [](char c) { return c <= ' ' || c == 0x7f; })) return false;
  // gRPC prints what it thinks of an address that can't be one, at every try: such are refused here.
  if (text.substr(0, 5) == "unix:") return text.size() > 5 && text.size() - 5 < sizeof(sockaddr_un::sun_path);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.find('/') != std::string_view::npos) return false;
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find(':') != std::string_view::npos) return false;
  if (bracketed) {
    const std::string inner(host.substr(1, host.find('%') == std::string_view::npos ? host.size() - 2 : host.find('%') - 1));
    in6_addr address{};
    if (inet_pton(AF_INET6, inner.c_str(), &address) != 1) return false;
  }
  const std::string_view digits = text.substr(colon + 1);
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && end == digits.data() + digits.size() && port >= 1 && port <= 65535;
}

}  // namespace scalewatch::client
