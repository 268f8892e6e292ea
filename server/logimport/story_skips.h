// Which of the printed skips are one: every rank prints its own line, and some scalers print several. Pure; bounded; not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "server/domain/observation.h"
#include "server/logimport/reading.h"

namespace scalewatch::logimport {

class SkipLines {
 public:
  struct Verdict {
    enum class Kind : std::uint8_t {
      kNew,    // a skip that was not told before
      kSame,   // another line about one that was
      kFills,  // tells the scale of the newest one, which was told without
    };
    Kind kind = Kind::kNew;
    double missing = 0;  // octaves that the scale fell since the newest one, on lines that are not in the log
  };

  // `moved`: steps (or records) that went by since the newest skip of this scaler.
  Verdict look(const Reading& skip, std::int64_t moved);
  // The scale that a record of a labelled rank printed.
  void record(const Reading& record);
  // Ranks hold different scales, told once each time that it shows.
  std::optional<domain::RankDifference> take_difference() { return std::exchange(difference_, std::nullopt); }
  // Whether any skip was printed.
  [[nodiscard]] bool any() const { return last_.has_value(); }

 private:
  static constexpr std::size_t kLines = 16;
  static constexpr std::size_t kRanks = 64;
  static constexpr std::size_t kOwn = 32;
  struct Own {
    std::deque<double> scales;  // newest last
    std::uint64_t first = 0;    // number of scales.front()
  };

  void note_unlabelled(double scale, std::int64_t moved);
  void note_labelled(domain::Rank rank, double scale);
  Verdict at_the_floor(const Reading& skip) const;

  void fill(const Reading& skip, Verdict& verdict);
  [[nodiscard]] double missing(const Reading& skip) const;

  std::optional<double> left_;   // scale that the newest skip left, of those that told one
  std::optional<Reading> last_;  // newest skip that was new
  std::uint32_t lines_ = 0;      // about it
  std::uint32_t usual_ = 0;      // lines that a skip before it had; 0 = not known
  std::deque<double> recent_;    // scales of the newest lines without a rank and without room for growth between
  std::deque<double> known_;     // of new skips since the scale could have grown
  std::map<domain::Rank, Own> own_;
  std::map<domain::Rank, std::pair<std::int64_t, double>> records_;  // newest step and scale by rank
  std::map<domain::Rank, std::uint32_t> records_differ_;             // records in a row that differ from the first rank's
  std::optional<domain::RankDifference> difference_;
};

}  // namespace scalewatch::logimport
