#include "server/history/attempt_octaves.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/history/record_reader.h"

namespace scalewatch::history {

void AttemptOctaves::add(const RankReports& reports) {
  for (const auto& report : reports) {
    const auto stream = catalog_.streams.find(report.stream);
    if (report.retrospective || stream == catalog_.streams.end()) continue;
    const auto& slots = *stream->second.slots;
    stored_.for_each_histogram(report, [&](const v1::RecordBlock& block, const v1::ExponentHistogram& histogram) {
      if (histogram.index() >= records_of(block)) return;
      const std::uint32_t id = id_at(block, histogram.index());
      if (id >= slots.size() || slots[id].tensor == Catalog::kNone) return;
      Sum& sum = sums_[slots[id].tensor];
      if (std::find(sum.shards.begin(), sum.shards.end(), slots[id].shard) != sum.shards.end()) return;
      sum.mixed = !sum.shards.empty() && (sum.mixed || sum.scale != block.measured_under_scale());
      sum.scale = block.measured_under_scale();
      sum.shards.push_back(slots[id].shard);
      sum.counts.resize(kOctaves);
      for (int i = 0; i < histogram.counts_size(); ++i) {
        const std::int64_t octave = std::int64_t{histogram.first_exponent()} + i - kFirst;
        if (octave >= 0 && octave < kOctaves) sum.counts[static_cast<std::size_t>(octave)] += histogram.counts(i);
      }
    });
  }
}

std::optional<v1::Octaves> AttemptOctaves::of(std::uint32_t position, const v1::Record& record) const {
  const auto found = sums_.find(position);
  if (found == sums_.end() || found->second.mixed) return std::nullopt;
  const auto& counts = found->second.counts;
  const std::uint64_t elements = record.numel() - record.nan() - record.pos_inf() - record.neg_inf() - record.zero();
  if (std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) != elements) return std::nullopt;
  const auto used = [](std::uint64_t count) { return count != 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), used);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), used).base();
  std::optional<v1::Octaves> octaves(std::in_place);
  octaves->set_first(kFirst + static_cast<int>(first - counts.begin()));
  if (first < last) octaves->mutable_counts()->Add(first, last);
  return octaves;
}

}  // namespace scalewatch::history
