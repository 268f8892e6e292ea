#include "server/cli/text/layout.h"

#include <algorithm>
#include <array>

#include "server/names/escape.h"

namespace scalewatch::cli::text {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array<Range, 7> kNoWidth{
    {{0x300, 0x36f}, {0x483, 0x489}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}}};
constexpr std::array<Range, 12> kWide{{{0x1100, 0x115f},
                                       {0x2e80, 0x303e},
                                       {0x3041, 0x4dbf},
                                       {0x4e00, 0xa4cf},
                                       {0xa960, 0xa97f},
                                       {0xac00, 0xd7a3},
                                       {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f},
                                       {0xff00, 0xff60},
                                       {0xffe0, 0xffe6},
                                       {0x1f300, 0x1faff},
                                       {0x20000, 0x3fffd}}};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) { return c >= r.first && c <= r.last; });
}

int width_of(char32_t c) {
  if (c < 0x300) return 1;
  if (within(kNoWidth, c)) return 0;
  return within(kWide, c) ? 2 : 1;
}

// Bytes of the longest beginning that fits into `width` columns.
std::size_t prefix_bytes(std::string_view text, int width) {
  std::size_t pos = 0;
  int used = 0;
  while (pos < text.size()) {
    const auto c = names::decode(text, pos);
    used += width_of(c.value);
    if (used > width) break;
    pos += c.length;
  }
  return pos;
}

// First byte of the longest end that fits into `width` columns.
std::size_t suffix_begin(std::string_view text, int width) {
  std::vector<std::pair<std::size_t, int>> starts;
  for (std::size_t pos = 0; pos < text.size();) {
    const auto c = names::decode(text, pos);
    starts.emplace_back(pos, width_of(c.value));
    pos += c.length;
  }
  std::size_t begin = text.size();
  int used = 0;
  for (auto it = starts.rbegin(); it != starts.rend(); ++it) {
    used += it->second;
    if (used > width) break;
    // A combining mark stays with the character before it.
    if (it->second > 0) begin = it->first;
  }
  return begin;
}

std::string_view code(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\x1b[1m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kNotice:
      return "\x1b[36m";
    case Style::kWarning:
      return "\x1b[33m";
    case Style::kCritical:
      return "\x1b[1;31m";
  }
  return "";
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t pos = 0; pos < text.size();) {
    const auto c = names::decode(text, pos);
    width += width_of(c.value);
    pos += c.length;
  }
  return width;
}

std::string truncate_middle(std::string_view text, int width, bool ascii) {
  if (width <= 0 || display_width(text) <= width) return std::string(text);
  const std::string_view ellipsis = ascii ? ".." : "…";
  const int room = width - display_width(ellipsis);
  if (room <= 0) return std::string(text.substr(0, prefix_bytes(text, width)));
  // The end of a tensor's name says more than its beginning, so it gets the odd column.
  const int head = room / 2;
  std::string out(text.substr(0, prefix_bytes(text, head)));
  out += ellipsis;
  out += text.substr(suffix_begin(text, room - head));
  return out;
}

std::string pad(std::string_view text, int width, Align align) {
  const int missing = std::max(0, width - display_width(text));
  const std::string blanks(static_cast<std::size_t>(missing), ' ');
  return align == Align::kLeft ? std::string(text) + blanks : blanks + std::string(text);
}

std::vector<std::string> wrap(std::string_view text, int width) {
  std::vector<std::string> lines;
  std::string line;
  int used = 0;
  while (!text.empty()) {
    const auto blank = text.find(' ');
    const auto word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    if (word.empty()) continue;
    const int word_width = display_width(word);
    if (!line.empty() && width > 0 && used + 1 + word_width > width) {
      lines.push_back(std::move(line));
      line.clear();
      used = 0;
    }
    if (!line.empty()) {
      line += ' ';
      ++used;
    }
    line += word;
    used += word_width;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> pieces(std::string_view text, int width) {
  std::vector<std::string> out;
  while (width > 0 && display_width(text) > width) {
    const auto bytes = std::max<std::size_t>(1, prefix_bytes(text, width));
    out.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  out.emplace_back(text);
  return out;
}

std::string paint(std::string_view text, Style style, bool color) {
  if (!color || style == Style::kPlain || text.empty()) return std::string(text);
  return std::string(code(style)) + std::string(text) + "\x1b[0m";
}

}  // namespace scalewatch::cli::text
