// Shows each line to the formats whose words it holds, and gathers what they read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/logimport/format.h"
#include "server/logimport/gate.h"
#include "server/logimport/line_readings.h"
#include "server/logimport/lines.h"
#include "server/logimport/prefix.h"
#include "server/logimport/scan.h"

namespace scalewatch::logimport {

// The words of all formats, and whose they are. Built once, shared by all files; immutable.
class FormatWords {
 public:
  explicit FormatWords(std::span<const std::unique_ptr<Format>> formats);

  struct Owner {
    std::uint16_t format = 0;
    std::uint16_t anchor = 0;
  };
  const Heads& heads() const { return scan_.heads(); }
  void find(std::string_view text, Bits places, std::size_t at, std::vector<WordScan::Hit>& hits) const {
    scan_.find(text, places, at, hits);
  }
  std::span<const Owner> owners(std::uint32_t word) const { return owners_[word]; }

 private:
  static std::vector<std::string> collect(std::span<const std::unique_ptr<Format>> formats,
                                          std::vector<std::vector<Owner>>& owners);

  std::vector<std::vector<Owner>> owners_;  // by word
  WordScan scan_;
};

// The formats of one file at work. Not thread-safe.
class Dispatch : public PieceSink {
 public:
  // format: as LogReader has it.
  Dispatch(std::string_view format, Gate& gate);

  // A new file: the formats forget all.
  void begin();
  void piece(const Piece& piece) override;
  const Heads& heads() const override { return words_->heads(); }
  void finish();

 private:
  struct Place {
    std::uint32_t position = 0;
    std::uint16_t anchor = 0;
  };

  void place_hits();
  void read_with_wanted(const Line& line, bool any_open);
  void read_with(std::size_t format, const Line& line);

  Gate& gate_;
  std::vector<std::unique_ptr<Format>> formats_;  // in the order of the list
  std::vector<FormatEntry> entries_;
  std::vector<bool> used_;  // by format: has seen a line of this file, so it may remember something
  std::shared_ptr<const FormatWords> words_;
  Marks marks_;  // of a piece that was put together
  std::vector<WordScan::Hit> hits_;
  std::vector<std::vector<Place>> places_;  // by format: where its words stand in this line
  std::vector<std::uint64_t> wanted_;       // bit set of formats that have places or are open
  std::size_t open_ = 0;                    // formats in the middle of something
  std::vector<bool> was_open_;
  NumberedLines numbered_;
  LineReadings readings_;
};

}  // namespace scalewatch::logimport
