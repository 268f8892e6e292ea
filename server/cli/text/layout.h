// Text in terminal columns: width, padding, truncation, wrapping, colour. Input is printable UTF-8 (see escape.h).
// Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::cli::text {

// Columns that a terminal gives the text: combining marks take 0, East Asian wide characters and emoji 2.
int display_width(std::string_view text);

// The text cut in its middle to at most `width` columns with an ellipsis, for both ends of a tensor's name tell it apart.
// A width of 0 or less means no limit.
std::string truncate_middle(std::string_view text, int width, bool ascii = false);

enum class Align : std::uint8_t { kLeft, kRight };
// The text filled with blanks to `width` columns; wider text is returned as it is.
std::string pad(std::string_view text, int width, Align align = Align::kLeft);

// Lines of at most `width` columns, broken at blanks; a longer word keeps its line. A width of 0 or less means one line.
std::vector<std::string> wrap(std::string_view text, int width);

// The text in pieces of at most `width` columns, broken anywhere. A width of 0 or less means one piece.
std::vector<std::string> pieces(std::string_view text, int width);

enum class Style : std::uint8_t { kPlain, kBold, kDim, kGood, kNotice, kWarning, kCritical };
// The text within the style's ANSI colour, or as it is when `color` is false.
std::string paint(std::string_view text, Style style, bool color);

}  // namespace scalewatch::cli::text
