// Reads logs: bytes in, readings out, in the order of the file. Finds the formats by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/logimport/reading.h"

namespace scalewatch::logimport {

struct ReadSummary {
  struct Format {
    std::string_view name;
    std::uint64_t readings = 0;
  };
  std::uint64_t bytes = 0;      // after decompression
  std::uint64_t lines = 0;      // of all files; a binary file has none
  std::uint64_t lines_cut = 0;  // longer than kMaxLineBytes: only their beginning was read
  std::uint64_t readings = 0;
  std::string_view format;      // that most readings came from; empty when nothing was read
  std::vector<Format> formats;  // that read something, the most first
};

// One reader reads any number of files one after another, on one thread. Memory: under a MiB beside what the sink keeps,
// whatever the files hold. Nothing is given out from a file until it has shown that it is about training: any reading of a
// scaler's or a trainer's format shows that; generic names and numbers show it together (format.h, Tier), progress bars never.
class LogReader {
 public:
  // format: only this one reads, beside the progress bars, and beside what scalers and detectors say unless it is one of these
  // itself; empty: all. Throws std::invalid_argument for an unknown name.
  explicit LogReader(ReadingSink& sink, std::string_view format = {});
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // file: its index, from 0, for Reading::file. Must not follow another begin_file without end_file.
  void begin_file(std::uint32_t file);
  void feed(std::string_view bytes);
  // No more bytes for now (a log that is followed): decides with what there is, instead of waiting for more of the beginning.
  void pause();
  void end_file();

  ReadSummary summary() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::logimport
