// Lets readings through once their file has shown that it is about training, and counts them.
#pragma once

#include <deque>
#include <string_view>
#include <vector>

#include "server/logimport/line_readings.h"
#include "server/logimport/reader.h"

namespace scalewatch::logimport {

class Gate : public ReadingSink {
 public:
  explicit Gate(ReadingSink& sink) : sink_(sink) {}

  // A new file has shown nothing.
  void begin(std::uint32_t file);
  // Readings of one line.
  void take(std::span<LineReading* const> readings);
  // Of a whole file that was recognised: through at once.
  void take(const Reading& reading) override;

  // Readings by format, the most first.
  std::vector<ReadSummary::Format> formats() const;
  std::uint64_t readings() const { return readings_; }

 private:
  void give(const Reading& reading);
  void open();

  ReadingSink& sink_;
  std::uint32_t file_ = 0;
  bool open_ = false;
  int evidence_ = 0;
  std::deque<Reading> held_;
  std::uint64_t readings_ = 0;
  struct Count {
    ReadSummary::Format format;
    std::uint64_t progress = 0;  // only bars: they decide nothing
  };
  std::vector<Count> counts_;
};

}  // namespace scalewatch::logimport
