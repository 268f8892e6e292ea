// Where the trainer is, from steps, batches and progress bars that do not agree on what they count. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <ranges>

#include <boost/circular_buffer.hpp>

#include "server/logimport/reading.h"

namespace scalewatch::logimport {

// Readings that are read and not told yet, oldest first; as many as it was made for.
using Readahead = boost::circular_buffer<Reading>;
using Beginning = std::ranges::subrange<Readahead::iterator>;

// One of several kinds of place is followed, the one that says most; the others only tell that time goes by.
class Places {
 public:
  struct Place {
    std::int64_t done = 0;   // steps or attempts that are behind the trainer, as it counts them
    bool ahead = false;      // the line was printed before the attempts that follow it (a progress bar)
    bool restarted = false;  // the count fell back: a new or resumed run begins here
    bool exact = false;      // the very next attempt is the one that the line tells of
  };

  // A run begins: these are its first readings.
  void begin(const Beginning& first);
  // Absent: the reading tells no place, or one of a kind that is not followed. A place never falls but by `restarted`.
  std::optional<Place> of(const Reading& reading);

  [[nodiscard]] bool any() const { return source_ != Source::kNone; }
  // Steps from one record to the next, as far as the first readings tell; 0 = not known.
  [[nodiscard]] std::int64_t interval() const { return interval_; }

 private:
  enum class Source : std::uint8_t { kNone, kBar, kBatch, kStep, kSkip };

  [[nodiscard]] Source source_of(const Reading& reading) const;
  [[nodiscard]] bool main_bar(const Reading& reading) const { return reading.steps_total == bar_total_; }
  void compare(std::int64_t value, Source source);
  std::optional<Place> follow(std::int64_t value, std::optional<std::int64_t> total, const Reading& reading);
  std::optional<std::int64_t> value_of(const Reading& reading, Source source);

  Source source_ = Source::kNone;
  std::int64_t interval_ = 0;
  std::optional<std::int64_t> bar_total_;  // of the bar that is followed: others are of evaluations and the like
  std::uint32_t without_step_ = 0;         // records since the newest with a step
  std::uint32_t other_bars_ = 0;           // since that bar was seen
  std::int64_t base_ = 0;                  // steps of the epochs before, where the count begins anew in each
  std::optional<std::int64_t> last_;       // newest value without base_
  std::optional<double> epoch_;
  bool from_zero_ = false;  // an epoch 0 was read
  // While skip lines number their own steps: another count that goes on between and after them.
  struct Beside {
    std::optional<std::int64_t> first, at_skip, now;
    std::optional<std::int64_t> first_skip, last_skip;
    bool after_skip = false;  // no record came since the newest skip
    bool compared = false;
    bool same = false;  // both count the same
  } beside_;
};

}  // namespace scalewatch::logimport
