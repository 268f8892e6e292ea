#include "server/logimport/gunzip.h"

#include <new>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kBlockBytes = 256 * 1024;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip header and trailer

}  // namespace

Gunzip::Gunzip() : block_(kBlockBytes) {
  if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
}

Gunzip::~Gunzip() {
  inflateEnd(&stream_);
}

bool Gunzip::feed(std::string_view bytes, const std::function<void(std::string_view)>& out) {
  if (damaged_) return false;
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  do {
    if (between_) {
      if (stream_.avail_in == 0) return true;
      // Zeros pad the end on some media; anything else that is no member is not ours.
      if (*stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
        continue;
      }
      inflateReset(&stream_);
      between_ = false;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_out = static_cast<uInt>(block_.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const std::size_t length = block_.size() - stream_.avail_out;
    if (length > 0) out({block_.data(), length});
    if (result == Z_STREAM_END) {
      between_ = true;
    } else if (result == Z_BUF_ERROR) {
      return true;  // needs more bytes
    } else if (result != Z_OK) {
      damaged_ = true;
      return false;
    }
  } while (stream_.avail_in > 0 || stream_.avail_out == 0);
  return true;
}

}  // namespace scalewatch::logimport
