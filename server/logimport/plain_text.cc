#include "server/logimport/plain_text.h"

#include <algorithm>

namespace scalewatch::logimport {

void PlainText::begin(std::string_view head) {
  if (head.starts_with("\xff\xfe")) {
    encoding_ = Encoding::kLittle;
    skip_ = 2;
  } else if (head.starts_with("\xfe\xff")) {
    encoding_ = Encoding::kBig;
    skip_ = 2;
  } else if (head.starts_with("\xef\xbb\xbf")) {
    skip_ = 3;
  }
}

std::string_view PlainText::convert(std::string_view bytes) {
  const std::size_t mark = std::min(skip_, bytes.size());
  bytes.remove_prefix(mark);
  skip_ -= mark;
  if (encoding_ == Encoding::kPlain) return bytes;
  out_.clear();
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    if (half_ < 0) {
      half_ = byte;
      continue;
    }
    const int high = encoding_ == Encoding::kLittle ? byte : half_;
    const int low = encoding_ == Encoding::kLittle ? half_ : byte;
    out_ += high == 0 && low < 0x80 ? static_cast<char>(low) : '?';
    half_ = -1;
  }
  return out_;
}

}  // namespace scalewatch::logimport
