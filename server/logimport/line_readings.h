// What the formats have read from one line, in order of position, and which parts of the line they have claimed.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "server/logimport/format.h"

namespace scalewatch::logimport {

struct LineReading {
  Reading reading;
  std::size_t position = 0;
  Tier tier = Tier::kEvent;
};

// Reused from line to line, so that no memory is taken for most of them. Bounded: what a line says beyond kMaxReadings is
// dropped.
class LineReadings : public Readings {
 public:
  static constexpr std::size_t kMaxReadings = 4096;  // a line of 64 KiB holds no more of the shortest messages

  void begin(const Line& line);
  // The format that reads now.
  void speaker(std::string_view format, Tier tier) {
    format_ = format;
    tier_ = tier;
  }

  Reading& add(Reading::Kind kind, std::size_t position) override;
  Reading& add_late(const Reading& held) override;
  void drop_last() override;
  void claim(std::size_t begin, std::size_t end) override;
  std::span<const std::string_view> gaps() override;

  bool claimed(std::size_t position) const;
  // Both, and all between them.
  bool claimed(std::size_t first, std::size_t last) const {
    return claims_.size() == 1 && claims_.front().first <= first && last < claims_.front().second;
  }
  std::size_t size() const { return count_; }
  // In order of position; a progress bar is merged into a record without a step. Good until the next line.
  std::span<LineReading* const> finish();

 private:
  Reading& next(std::size_t position);

  const Line* line_ = nullptr;
  std::string_view format_;
  Tier tier_ = Tier::kEvent;
  std::vector<LineReading> all_;  // only the first count_ are of this line
  std::size_t count_ = 0;
  std::vector<LineReading*> order_;
  std::vector<std::pair<std::size_t, std::size_t>> claims_;  // ordered, apart from each other
  std::vector<std::string_view> gaps_;
};

}  // namespace scalewatch::logimport
