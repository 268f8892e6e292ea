#include "server/domain/run_state.h"

#include <utility>

#include "server/domain/run_fold.h"

namespace scalewatch::domain {
namespace {

constexpr std::uint32_t kMagic = 0x4e555253;  // "SRUN"
// 2: losses by cause; 3: replayed policies, the segment before; 4: logs; 5: late advice; 6: losses of 0; 7: unmasked; 8:
// counts; 9: who was replaced
constexpr std::uint32_t kVersion = 9;
constexpr std::uint32_t kOldest = 7;  // that is read

}  // namespace

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const auto& rule : make_rules()) names.emplace_back(rule->name());
  return names;
}

struct RunState::Impl : RunFold {
  using RunFold::RunFold;
};

RunState::RunState(Thresholds thresholds) : impl_(std::make_unique<Impl>(thresholds)) {}
RunState::~RunState() = default;
RunState::RunState(RunState&&) noexcept = default;
RunState& RunState::operator=(RunState&&) noexcept = default;

std::vector<FindingEvent> RunState::fold(const Input& input) {
  std::visit(
      [&](const auto& concrete) {
        impl_->begin(concrete.now);
        impl_->on(concrete);
      },
      input);
  // Every rank said goodbye: nothing can be done any more, whatever still closes.
  if (impl_->run().all_left()) impl_->sink().resolve_all();
  return impl_->sink().take_events();
}

RunView RunState::view() const {
  const RunModel& run = impl_->run();
  RunView view;
  view.segment = run.segment;
  view.segment_started = run.segment_started;
  view.world_size = run.world_size;
  view.framework = run.framework;
  view.compute_dtype = run.compute_dtype;
  view.attempts = run.attempts + run.passed;
  view.applied = run.applied + run.passed;
  view.skipped = run.skipped;
  view.partial = run.partial;
  view.counts = run.counts;
  view.last_step = run.last_step;
  view.loss = run.loss;
  view.grad_norm = run.grad_norm;
  for (const ScalerTrack& track : run.scalers) {
    ScalerView& scaler = view.scalers.emplace_back();
    scaler.info = track.info;
    scaler.scale = track.scale;
    scaler.scale_first = track.scale_first;
    scaler.scale_min = track.scale_min;
    scaler.growth_tracker = track.growth_tracker;
    scaler.applied = track.applied;
    scaler.skipped = track.skipped;
    scaler.growths = track.growths;
    scaler.consecutive_skips = track.consecutive_skips;
    scaler.calibrating = track.calibrating();
    scaler.skip_ratio = track.skip_ratio();
    scaler.hysteresis = track.told_hysteresis;
  }
  for (const auto& [number, info] : run.ranks) {
    RankView& rank = view.ranks.emplace_back();
    rank = {number, info.host, info.pid, info.gpu_uuid, info.left, info.last_attempt, info.last_report, {}};
    for (const auto& [cause, tally] : info.losses) {
      rank.losses.push_back(
          {cause, tally.reports, tally.first_seq, tally.last_seq, tally.thinned, tally.first_attempt, tally.last_attempt});
    }
  }
  view.open = impl_->sink().open();
  return view;
}

std::string RunState::save() const {
  Writer writer(kMagic, kVersion);
  impl_->persist(writer);
  return std::move(writer).finish();
}

void RunState::load(std::string_view bytes) {
  auto fresh = std::make_unique<Impl>(impl_->thresholds());
  Reader reader(bytes, kMagic, kVersion, kOldest);
  fresh->persist(reader);
  reader.finish();
  fresh->sink().resolve_off();
  impl_ = std::move(fresh);
}

}  // namespace scalewatch::domain
