// Byte order marks: logs that were redirected on Windows are UTF-16.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scalewatch::logimport {

// Takes a byte order mark off and turns UTF-16 into one byte a character (characters outside ASCII become '?': no number and no
// word that a format knows holds one). All else passes as it is.
class PlainText {
 public:
  // The first bytes of the file, before they are converted.
  void begin(std::string_view head);
  // The bytes in order. The view is good until the next call.
  std::string_view convert(std::string_view bytes);

 private:
  enum class Encoding : std::uint8_t { kPlain, kLittle, kBig };

  Encoding encoding_ = Encoding::kPlain;
  std::size_t skip_ = 0;  // bytes of the mark that are still to come
  std::string out_;
  int half_ = -1;  // the first byte of a character whose second has not come
};

}  // namespace scalewatch::logimport
