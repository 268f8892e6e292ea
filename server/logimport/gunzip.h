// gzip in a stream: any number of members one after another, as logs are rotated and appended.
#pragma once

#include <zlib.h>

#include <functional>
#include <string_view>
#include <vector>

namespace scalewatch::logimport {

class Gunzip {
 public:
  Gunzip();
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  static bool recognises(std::string_view head) { return head.starts_with("\x1f\x8b"); }

  // Gives out what the bytes hold, in pieces of at most 256 KiB. False: they are damaged; all later bytes are ignored.
  bool feed(std::string_view bytes, const std::function<void(std::string_view)>& out);
  // Whether the bytes so far end where a member ends.
  bool complete() const { return !damaged_ && between_; }

 private:
  z_stream stream_{};
  std::vector<char> block_;
  bool between_ = true;  // no member is open
  bool damaged_ = false;
};

}  // namespace scalewatch::logimport
