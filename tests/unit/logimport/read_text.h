// Reads text as a log, for tests.
#pragma once

#include <string_view>
#include <vector>

#include "server/logimport/reader.h"

namespace scalewatch::logimport {

class KeepReadings : public ReadingSink {
 public:
  void take(const Reading& reading) override { all.push_back(reading); }
  std::vector<Reading> all;
};

inline std::vector<Reading> read_text(std::string_view text, std::string_view format = {}, std::size_t block = 1 << 20) {
  KeepReadings sink;
  LogReader reader(sink, format);
  reader.begin_file(0);
  for (std::size_t at = 0; at < text.size(); at += block) reader.feed(text.substr(at, block));
  reader.end_file();
  return sink.all;
}

}  // namespace scalewatch::logimport
