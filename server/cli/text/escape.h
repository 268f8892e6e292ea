// Makes names and messages of others safe to print. Pure and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace scalewatch::cli::text {

// One code point of `bytes` at `pos` (pos < bytes.size()). Malformed bytes come one at a time with valid = false.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1;  // bytes
  bool valid = false;
};
CodePoint decode(std::string_view bytes, std::size_t pos);

// Control characters (C0, DEL, C1), bidirectional controls, invisible characters and malformed UTF-8 come out as \xNN or
// \uNNNN, so that a name can neither move the cursor nor pretend to be another. Other text is kept as it is.
std::string escape(std::string_view bytes);

}  // namespace scalewatch::cli::text
