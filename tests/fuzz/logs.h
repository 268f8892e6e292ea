// What both targets share: a sink that touches what it gets.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/logimport/reader.h"

namespace scalewatch::logimport {

// Checks what every reading promises, whatever the log holds.
class CheckedSink : public ReadingSink {
 public:
  void take(const Reading& reading) override {
    if (reading.format.empty() || reading.detail.size() > 200 || reading.tensor.size() > 4096) std::abort();
    if (reading.step && *reading.step < 0) std::abort();
    if (reading.scale_quantum < 0) std::abort();
  }
};

// Feeds a file in blocks of `block` bytes, so that every cut is tried.
inline void read_in_blocks(LogReader& reader, std::string_view bytes, std::size_t block) {
  reader.begin_file(0);
  for (std::size_t at = 0; at < bytes.size(); at += block) reader.feed(bytes.substr(at, block));
  reader.end_file();
}

}  // namespace scalewatch::logimport
