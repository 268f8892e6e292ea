// The run's ranks and scalers: who is there, and who leads.
#include "server/domain/run_fold.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/domain/blame.h"

namespace scalewatch::domain {

void RunFold::ensure_segment(TimeMs now) {
  if (run_.segment != 0) return;
  run_.segment = 1;
  run_.segment_started = now;
}

RankInfo& RunFold::rank_info(Rank rank) {
  const auto [entry, fresh] = run_.ranks.try_emplace(rank);
  if (fresh) {
    entry->second.rank = rank;
    ++run_.present;
  }
  return entry->second;
}

void RunFold::map_scaler(RankInfo& rank, const ScalerInfo& info, std::uint32_t declared) {
  const auto known = std::find_if(run_.scalers.begin(), run_.scalers.end(),
                                  [&](const ScalerTrack& track) { return track.info.name == info.name; });
  if (known != run_.scalers.end()) {
    known->declared_optimizers = std::max(known->declared_optimizers, declared);
    rank.scaler_tracks.push_back(static_cast<std::uint32_t>(known - run_.scalers.begin()));
    return;
  }
  // Too many scalers: the rest is not watched.
  if (run_.scalers.size() >= RunModel::kMaxScalers) return;
  rank.scaler_tracks.push_back(static_cast<std::uint32_t>(run_.scalers.size()));
  run_.scalers.push_back(make_track(info));
  run_.scalers.back().from_log = run_.from_log;
  run_.scalers.back().declared_optimizers = declared;
}

std::optional<std::uint32_t> RunFold::track_of(RankInfo& rank, std::uint32_t index) {
  if (index < rank.scaler_tracks.size()) return rank.scaler_tracks[index];
  if (index >= RunModel::kMaxScalers) return std::nullopt;
  while (rank.scaler_tracks.size() <= index) {
    const std::size_t before = rank.scaler_tracks.size();
    map_scaler(rank, {std::string("scaler") + std::to_string(before), {}, {}}, 0);
    if (rank.scaler_tracks.size() == before) return std::nullopt;
  }
  lead_if_lower(rank);
  return rank.scaler_tracks[index];
}

void RunFold::lead_if_lower(const RankInfo& rank) {
  for (const std::uint32_t track : rank.scaler_tracks) {
    auto& leader = run_.scalers[track].leader;
    if (!leader || rank.rank < *leader) leader = rank.rank;
  }
}

void RunFold::replace_leader(Rank gone) {
  for (std::uint32_t track = 0; track < run_.scalers.size(); ++track) {
    if (run_.scalers[track].leader != gone) continue;
    run_.scalers[track].leader.reset();
    for (const auto& [number, info] : run_.ranks) {
      if (!info.live() || std::find(info.scaler_tracks.begin(), info.scaler_tracks.end(), track) == info.scaler_tracks.end()) {
        continue;
      }
      run_.scalers[track].leader = number;
      break;
    }
  }
}

void RunFold::forget_poison(Rank rank) {
  for (auto entry = run_.poisoned.begin(); entry != run_.poisoned.end();) {
    std::erase(entry->second.ranks, rank);
    entry = entry->second.ranks.empty() ? run_.poisoned.erase(entry) : std::next(entry);
  }
}

}  // namespace scalewatch::domain
