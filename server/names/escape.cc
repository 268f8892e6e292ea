#include "server/names/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace scalewatch::names {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Joiners are among them: they make equal-looking names.
constexpr std::array<Range, 11> kMisleading{{{0x00, 0x1f},
                                             {0x7f, 0x9f},
                                             {0xad, 0xad},
                                             {0x61c, 0x61c},
                                             {0x180e, 0x180e},
                                             {0x200b, 0x200f},
                                             {0x2028, 0x202e},
                                             {0x2060, 0x206f},
                                             {0xfeff, 0xfeff},
                                             {0xfff9, 0xfffb},
                                             {0xe0000, 0xe007f}}};

}  // namespace

CodePoint decode(std::string_view bytes, std::size_t pos) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(pos);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const CodePoint malformed{lead, 1, false};
  if (lead < 0xc2 || lead > 0xf4 || pos + length > bytes.size()) return malformed;
  char32_t value = lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(pos + i) & 0xc0U) != 0x80U) return malformed;
    value = (value << 6U) | (byte(pos + i) & 0x3fU);
  }
  const char32_t smallest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (value < smallest || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return malformed;
  return {value, length, true};
}

bool is_utf8(std::string_view bytes) {
  for (std::size_t pos = 0; pos < bytes.size();) {
    const auto c = decode(bytes, pos);
    if (!c.valid) return false;
    pos += c.length;
  }
  return true;
}

bool misleads(char32_t value) {
  return std::any_of(kMisleading.begin(), kMisleading.end(),
                     [&](const Range& range) { return value >= range.first && value <= range.last; });
}

std::string escape(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t pos = 0; pos < bytes.size();) {
    const auto c = decode(bytes, pos);
    if (!c.valid || (c.value < 0x80 && misleads(c.value))) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint32_t>(c.value));
    } else if (misleads(c.value)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<std::uint32_t>(c.value));
    } else {
      out.append(bytes.substr(pos, c.length));
    }
    pos += c.length;
  }
  return out;
}

}  // namespace scalewatch::names
