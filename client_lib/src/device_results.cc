#include "client_lib/src/device_results.h"

#include <algorithm>
#include <cmath>

#include "cuda/record/format.h"
#include "cuda/record/merge.h"

namespace scalewatch::client {
namespace {

ScalerObservation& scaler_in(Attempt& attempt, std::uint32_t id) {
  const auto known = std::ranges::find(attempt.scalers, id, &ScalerObservation::scaler);
  if (known != attempt.scalers.end()) return *known;
  attempt.scalers.emplace_back().scaler = id;
  return attempt.scalers.back();
}

OptimizerObservation& optimizer_in(Attempt& attempt, std::uint32_t scaler, std::uint32_t id) {
  scaler_in(attempt, scaler);
  const auto known = std::ranges::find_if(
      attempt.optimizers, [=](const OptimizerObservation& o) { return o.scaler == scaler && o.optimizer == id; });
  if (known != attempt.optimizers.end()) return *known;
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return attempt.optimizers.emplace_back(OptimizerObservation{scaler, id, kUnknown, kUnknown, 0});
}

// Numbers of scalewatch_outcome.
constexpr std::int32_t kOutcomeUnknown = 0, kApplied = 1, kSkipped = 2;

void apply_scalar(Attempt& attempt, const cuda::ScalarTag& tag, double value) {
  if (std::isnan(value) && static_cast<ScalarKind>(tag.kind) == ScalarKind::kGrowthTracker) return;
  switch (static_cast<ScalarKind>(tag.kind)) {
    case ScalarKind::kTensorScale:
      break;  // of the records
    case ScalarKind::kScaleBefore:
      scaler_in(attempt, tag.first).scale_before = value;
      break;
    case ScalarKind::kScaleAfter:
      scaler_in(attempt, tag.first).scale_after = value;
      break;
    case ScalarKind::kGrowthTracker:
      scaler_in(attempt, tag.first).growth_tracker = static_cast<std::int64_t>(std::clamp(value, -1.0, 0x1p62));
      break;
    case ScalarKind::kFoundInfLocal:
      optimizer_in(attempt, tag.first, tag.second).found_inf_local = value;
      break;
    case ScalarKind::kFoundInfDecided:
      optimizer_in(attempt, tag.first, tag.second).found_inf_decided = value;
      break;
  }
}

// What became of a step that nobody told: found_inf decides it.
void decide_outcomes(Attempt& attempt) {
  for (OptimizerObservation& seen : attempt.optimizers) {
    const double found = std::isnan(seen.found_inf_decided) ? seen.found_inf_local : seen.found_inf_decided;
    if (seen.outcome == kOutcomeUnknown && !std::isnan(found)) seen.outcome = found > 0 ? kSkipped : kApplied;
  }
}

}  // namespace

bool DeviceResults::settle(Attempt& attempt, bool give_up) {
  if (attempt.batches.empty()) return true;
  for (; attempt.batches_settled < attempt.batches.size(); ++attempt.batches_settled) {
    cuda::Batch& batch = *attempt.batches[attempt.batches_settled];
    const cuda::Batch::Ready ready = batch.poll();
    if (ready == cuda::Batch::Ready::kYes) {
      apply(attempt, batch);
      batch.give_back();
    } else if (ready == cuda::Batch::Ready::kFailed) {
      lose(attempt, batch, Devices::Lost::kQuiet);  // its GPU is quiet now, and uses it no more
    } else if (give_up) {
      lose(attempt, batch, Devices::Lost::kLate);
      overdue_.push_back(&batch);
    } else {
      return false;
    }
  }
  decide_outcomes(attempt);
  if (attempt.sheet != nullptr) {
    std::erase_if(*attempt.sheet, [](const Measured& m) { return m.micro_batches == 0; });  // nothing came of it
    for (Measured& m : *attempt.sheet) {
      if (m.scale == 0) m.scale = 1;
    }
  }
  return true;
}

void DeviceResults::lose(Attempt& attempt, const cuda::Batch& batch, Devices::Lost cause) {
  devices_.count_lost(cause, batch.records());
  attempt.statistics_lost = LossCause::kDevice;
  if (attempt.sheet == nullptr || attempt.sheet_cut) return;
  for (const cuda::RecordTag& tag : batch.record_tags) {
    if (tag.place < attempt.sheet->size()) --(*attempt.sheet)[tag.place].micro_batches;
  }
}

void DeviceResults::apply(Attempt& attempt, cuda::Batch& batch) {
  devices_.add_gpu_ns(batch.gpu_ns() * cuda::Measurer::kTimed);
  const std::uint32_t blocks = batch.take_blocks();
  if (batch.lost_blocks() != 0) {
    devices_.count_lost(Devices::Lost::kReplays, batch.lost_blocks() * batch.records());
    attempt.statistics_lost = LossCause::kDevice;
  }
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (std::size_t i = 0; i < batch.scalars(); ++i) apply_scalar(attempt, batch.scalar_tags[i], batch.scalar(block, i));
  }
  if (attempt.sheet == nullptr || attempt.sheet_cut) return;  // found no room for its records
  for (std::size_t i = 0; i < batch.records(); ++i) {
    const cuda::RecordTag& tag = batch.record_tags[i];
    if (tag.place >= attempt.sheet->size()) continue;
    Measured& into = (*attempt.sheet)[tag.place];
    into.micro_batches += blocks;
    --into.micro_batches;  // it was counted as one
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const Record record = batch.record(block, i);
      const std::int64_t micro = std::int64_t{tag.micro} + block;
      if (record.non_finite() != 0 && (into.first_bad_micro < 0 || micro < into.first_bad_micro)) into.first_bad_micro = micro;
      merge(into.record, record);
      if (tag.scale != cuda::kNone) into.scale = effective_scale(batch.scalar(block, tag.scale));
    }
  }
  if (attempt.histograms == nullptr) return;
  for (std::size_t i = 0; i < batch.exponents(); ++i) {
    const cuda::RecordTag& tag = batch.record_tags[batch.exponent_tags[i]];
    if (tag.place >= attempt.sheet->size()) continue;
    Measured& into = (*attempt.sheet)[tag.place];
    if (into.histogram == kNoHistogram) continue;
    batch.add_exponents(i, attempt.histograms->slots[into.histogram]);
    ++into.histogram_micros;
  }
}

void DeviceResults::reclaim() {
  std::erase_if(overdue_, [](cuda::Batch* batch) {
    const cuda::Batch::Ready ready = batch->poll();
    if (ready == cuda::Batch::Ready::kYes) {
      batch->take_blocks();  // of a graph: they are told of no more
      batch->give_back();
    }
    return ready != cuda::Batch::Ready::kNotYet;
  });
}

DeviceCounters DeviceResults::counters() const {
  return {devices_.gpu_ns(),
          devices_.poll_calls(),
          devices_.lost(Devices::Lost::kQuiet),
          devices_.lost(Devices::Lost::kBusy),
          devices_.lost(Devices::Lost::kLate),
          devices_.lost(Devices::Lost::kReplays),
          faults_};
}

std::vector<DeviceFault> DeviceResults::new_faults() {
  std::vector<DeviceFault> found;
  for (int i = 0; i < Devices::kMost; ++i) {
    const cuda::Device* device = devices_.device(i);
    if (device == nullptr || !device->quiet() || device->process_ends()) continue;
    if (std::ranges::any_of(faults_, [i](const DeviceFault& f) { return f.device == i; })) continue;
    char detail[256] = "";
    device->describe_fault(detail, sizeof detail);
    found.push_back({i, static_cast<std::int32_t>(device->cause()), detail});
    faults_.push_back(found.back());
  }
  return found;
}

}  // namespace scalewatch::client
