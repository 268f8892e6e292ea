// Makes names and messages of others safe to show. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace scalewatch::names {

// One code point of `bytes` at `pos` (pos < bytes.size()). Strict UTF-8: no overlong forms, no surrogates, nothing above
// U+10FFFF; malformed bytes come one at a time with valid = false.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1;  // bytes
  bool valid = false;
};
CodePoint decode(std::string_view bytes, std::size_t pos);

// Whether a text is UTF-8, as decode() has it: Protobuf reads no message with one that is not.
bool is_utf8(std::string_view bytes);

// What a terminal obeys, what turns the order of the text around it, or what nobody sees: control characters (C0, DEL, C1),
// bidirectional controls, zero-width and other invisible characters, separators of lines, annotations and tags.
bool misleads(char32_t value);

// Characters that mislead and malformed UTF-8 come out as \xNN or \uNNNN, so that a name can neither move the cursor nor
// pretend to be another. Other text is kept as it is.
std::string escape(std::string_view bytes);

}  // namespace scalewatch::names
