// Which attempts of a segment can be read from the chunks of single streams, and which must be merged attempt by attempt.
#pragma once

#include <vector>

#include "server/history/catalog.h"
#include "server/history/intervals.h"
#include "server/history/reading.h"
#include "server/history/report_reader.h"

namespace scalewatch::history {

struct SegmentCover {
  struct Stretch {
    std::int64_t stream = 0;
    std::int64_t number = 0;
    Interval attempts;
  };
  std::vector<Stretch> stretches;  // with records
  std::vector<Interval> merged;    // joined
  std::vector<Interval> scored;    // of what the shared history alone has, what its scores tell; the rest of it is merged
  std::vector<Interval> wide;      // of these, what is there by hundreds too
};

SegmentCover cover(Reading& reading, const Catalog& catalog, const ReportRange& range);

}  // namespace scalewatch::history
