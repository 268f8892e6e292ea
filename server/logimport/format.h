// What a log format is, and the list of those that are known (list.cc: one line each).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "server/logimport/line.h"
#include "server/logimport/reading.h"

namespace scalewatch::logimport {

// Takes what formats read from the line that is being read.
class Readings {
 public:
  virtual ~Readings() = default;

  // A new reading, found at this position of the line. Line number, format, time and rank are filled in. The reference is good
  // until the next call.
  virtual Reading& add(Reading::Kind kind, std::size_t position) = 0;
  // As add, of a line that was read before: for formats that hold a line back until they have seen the next.
  virtual Reading& add_late(const Reading& held) = 0;
  // Takes back the last one added.
  virtual void drop_last() = 0;
  // From here to there the line is understood: formats that come later in the list do not look at it.
  virtual void claim(std::size_t begin, std::size_t end) = 0;
  // The parts of the line that nobody has claimed, in order. For generic formats. Good until the next call.
  virtual std::span<const std::string_view> gaps() = 0;
};

// One format of lines: knows its words, reads the lines that hold them. One object reads one file, from the first line to the
// last, on one thread; it may keep state between lines, bounded, whatever the file holds.
class Format {
 public:
  virtual ~Format() = default;

  // Lower case with _, for reports and --format. Static storage.
  virtual std::string_view name() const = 0;

  // Only lines that hold one of these (in any case of letters, at least four bytes each) are shown to read(). Choose words that
  // few other lines hold: this is what makes reading fast. Static storage, or as long as the object lives.
  virtual std::span<const std::string_view> anchors() const = 0;

  // The line holds anchors()[anchor] at position `at`, and nobody has claimed it there. Adds what it finds, claims what it
  // understood; anything else in the line stays for others. Called at the first such place of a line; at every one when
  // every_place() (a place that it claims meanwhile is not shown again).
  virtual void read(const Line& line, std::size_t at, std::size_t anchor, Readings& out) = 0;
  virtual bool every_place() const { return false; }

  // True: in the middle of something that spans lines, so the next line is shown to read_next() whatever it holds.
  virtual bool open() const { return false; }
  virtual void read_next(const Line& /*line*/, Readings& /*out*/) {}

  // The file has ended: what was held back.
  virtual void finish(Readings& /*out*/) {}
};

// A format that is the whole file rather than lines of it (a table, a JSON document, a binary file).
class ContentFormat {
 public:
  virtual ~ContentFormat() = default;
  virtual std::string_view name() const = 0;
  // Whether the file is of this format; head is its first bytes (all of a shorter file, at least 16 KiB of a longer one).
  // Must be sure: no other format sees the file then.
  virtual bool recognises(std::string_view head) const = 0;
  // All bytes in order, cut anywhere. Fills line and format of its readings itself.
  virtual void feed(std::string_view bytes, ReadingSink& sink) = 0;
  virtual void finish(ReadingSink& sink) = 0;
};

// The order of the list within a tier is the order in which formats may claim.
enum class Tier : std::uint8_t {
  kEvent,    // lines of scalers and detectors: they stand alone or glued to anything
  kRecord,   // the records of one trainer
  kBar,      // progress bars
  kGeneric,  // names and numbers of any trainer: they see only what is left, and count only once the file has shown that it is
             // about training (a loss or a scale together with a step, a learning rate or a gradient norm)
};

struct FormatEntry {
  Tier tier;
  std::unique_ptr<Format> (*make)();
};
struct ContentEntry {
  std::unique_ptr<ContentFormat> (*make)();
};

std::span<const FormatEntry> format_list();
std::span<const ContentEntry> content_format_list();
// The names of format_list(), in its order. Several entries may share one: what a trainer's scaler says and its records.
const std::vector<std::string_view>& line_format_names();
// All names, each once, for help and errors.
const std::vector<std::string_view>& format_names();

}  // namespace scalewatch::logimport
