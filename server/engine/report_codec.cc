#include "server/engine/report_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "server/engine/hello.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

constexpr std::uint64_t kMaxAttempt = 1ULL << 48;
constexpr int kMaxMisuse = 64;
constexpr int kMaxScalerObservations = 64;
constexpr int kMaxBlocks = 131'072;  // each tensor of a large model may have a scale of its own
constexpr int kMaxLogTensors = 256;
constexpr std::size_t kMaxKindBytes = 64;
constexpr std::size_t kMaxNameBytes = 512;
constexpr std::size_t kMaxDetailBytes = 1024;
constexpr int kMaxExponents = 277;  // -149 to 127

std::uint32_t records_in(const v1::RecordBlock& block) {
  return block.ids_size() > 0 ? static_cast<std::uint32_t>(block.ids_size()) : block.count();
}

std::string ids_fault(const v1::RecordBlock& block, const domain::TensorTable& table) {
  const std::uint64_t count = records_in(block);
  if (block.ids_size() > 0 && block.count() != 0 && block.count() != count) {
    return fmt::format("count {} does not equal the {} ids", block.count(), count);
  }
  if (block.ids_size() == 0 && block.first_id() + count > table.size()) {
    return fmt::format("ids {} to {} are not within the table of {} tensors", block.first_id(), block.first_id() + count - 1,
                       table.size());
  }
  std::uint64_t next = 0;
  for (const std::uint32_t id : block.ids()) {
    if (id < next) return fmt::format("ids must rise: {} is not above the one before", id);
    if (id >= table.size()) return fmt::format("ids: {} is not within the table of {} tensors", id, table.size());
    next = std::uint64_t{id} + 1;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t id = block.ids_size() > 0 ? block.ids(static_cast<int>(i)) : block.first_id() + i;
    if (static_cast<int>(table[id].role) != block.role()) {
      return fmt::format("tensor {} ('{}') is not of role {}", id, shown(table[id].name), v1::Role_Name(block.role()));
    }
  }
  return {};
}

std::string lengths_fault(const v1::RecordBlock& block, int count) {
  struct Column {
    std::string_view name;
    int size;
    bool may_be_empty;
  };
  for (const Column& column : {Column{"min", block.min_size(), false}, Column{"max", block.max_size(), false},
                               Column{"absmin_nonzero", block.absmin_nonzero_size(), false},
                               Column{"sum", block.sum_size(), false}, Column{"sum_sq", block.sum_sq_size(), false},
                               Column{"zero", block.zero_size(), true}, Column{"subnormal", block.subnormal_size(), true},
                               Column{"flushed", block.flushed_size(), true}, Column{"numel", block.numel_size(), true}}) {
    if (column.size != count && !(column.may_be_empty && column.size == 0)) {
      return fmt::format("column {} has {} values for {} records", column.name, column.size, count);
    }
  }
  return {};
}

template <class Sparse>
std::string sparse_fault(std::string_view name, const Sparse& list, std::uint32_t count) {
  std::uint64_t next = 0;
  for (const auto& entry : list) {
    if (entry.index() < next || entry.index() >= count) {
      return fmt::format("{}: index {} is not rising within {} records", name, entry.index(), count);
    }
    next = std::uint64_t{entry.index()} + 1;
  }
  return {};
}

std::string block_fault(const v1::RecordBlock& block, const domain::TensorTable& table) {
  if (block.role() < v1::ROLE_GRADIENT || block.role() > v1::ROLE_BUFFER)
    return fmt::format("role {} is unknown", static_cast<int>(block.role()));
  if (block.target() < v1::DTYPE_UNSPECIFIED || block.target() > v1::DTYPE_E5M2)
    return fmt::format("target {} is unknown", static_cast<int>(block.target()));
  if (!std::isfinite(block.measured_under_scale()) || block.measured_under_scale() < 0) {
    return fmt::format("measured_under_scale {} is not a finite positive number", block.measured_under_scale());
  }
  if (auto fault = ids_fault(block, table); !fault.empty()) return fault;
  const std::uint32_t count = records_in(block);
  if (auto fault = lengths_fault(block, static_cast<int>(count)); !fault.empty()) return fault;
  using SparseList = google::protobuf::RepeatedPtrField<v1::SparseCount>;
  for (const auto& [name, list] : std::initializer_list<std::pair<std::string_view, const SparseList*>>{
           {"nan", &block.nan()}, {"pos_inf", &block.pos_inf()}, {"neg_inf", &block.neg_inf()}, {"over", &block.over()}}) {
    if (auto fault = sparse_fault(name, *list, count); !fault.empty()) return fault;
  }
  if (auto fault = sparse_fault("first_bad_micro", block.first_bad_micro(), count); !fault.empty()) return fault;
  if (auto fault = sparse_fault("exponents", block.exponents(), count); !fault.empty()) return fault;
  for (const auto& histogram : block.exponents()) {
    if (histogram.counts_size() > kMaxExponents)
      return fmt::format("exponents: {} bins, at most {} exist", histogram.counts_size(), kMaxExponents);
  }
  return {};
}

std::string log_fault(const v1::FromLog& log, std::uint64_t attempt) {
  if (auto fault = scaler_infos_fault(log.scalers()); !fault.empty()) return fault;
  if (log.applied_before() >= attempt) return fmt::format("{} attempts before attempt {}", log.applied_before(), attempt);
  if (log.tensors_size() > kMaxLogTensors) return fmt::format("more than {} tensors of a log", kMaxLogTensors);
  if (log.differences_size() > kMaxMisuse) return fmt::format("more than {} differences", kMaxMisuse);
  for (const auto& tensor : log.tensors()) {
    if (tensor.role() < v1::ROLE_GRADIENT || tensor.role() > v1::ROLE_BUFFER)
      return fmt::format("role {} is unknown", static_cast<int>(tensor.role()));
  }
  return {};
}

std::string scalers_fault(const v1::Report& report, const v1::Hello& hello) {
  if (report.scalers_size() > kMaxScalerObservations)
    return fmt::format("more than {} scaler observations", kMaxScalerObservations);
  for (const auto& scaler : report.scalers()) {
    // Those of a log show one after the other.
    const auto known = report.has_from_log() ? kMaxScalerObservations : hello.scalers_size();
    if (scaler.scaler() >= static_cast<std::uint32_t>(known)) {
      return fmt::format("scaler {}: Hello named {}", scaler.scaler(), hello.scalers_size());
    }
    if (scaler.optimizers_size() > std::max(1, hello.optimizers_size()))
      return fmt::format("scaler {}: more optimizers than Hello named", scaler.scaler());
    for (const auto& optimizer : scaler.optimizers()) {
      if (hello.optimizers_size() > 0 && optimizer.optimizer() >= static_cast<std::uint32_t>(hello.optimizers_size())) {
        return fmt::format("optimizer {}: Hello named {}", optimizer.optimizer(), hello.optimizers_size());
      }
    }
  }
  return {};
}

std::vector<domain::SparseCount> sparse_of(const google::protobuf::RepeatedPtrField<v1::SparseCount>& list) {
  std::vector<domain::SparseCount> out;
  out.reserve(static_cast<std::size_t>(list.size()));
  for (const auto& entry : list) out.push_back({entry.index(), entry.count()});
  return out;
}

template <class T>
std::span<const T> span_of(const google::protobuf::RepeatedField<T>& column) {
  return {column.data(), static_cast<std::size_t>(column.size())};
}

domain::ScalerObservation to_domain(const v1::ScalerObservation& scaler) {
  domain::ScalerObservation out{.scaler = scaler.scaler(),
                                .scale_before = {},
                                .scale_after = {},
                                .growth_tracker = {},
                                .hysteresis = {},
                                .optimizers = {}};
  if (scaler.has_scale_before()) out.scale_before = scaler.scale_before();
  if (scaler.has_scale_after()) out.scale_after = scaler.scale_after();
  if (scaler.has_growth_tracker()) out.growth_tracker = scaler.growth_tracker();
  if (scaler.has_hysteresis()) out.hysteresis = scaler.hysteresis();
  for (const auto& optimizer : scaler.optimizers()) {
    domain::OptimizerObservation& to = out.optimizers.emplace_back();
    to.optimizer = optimizer.optimizer();
    if (optimizer.has_found_inf_local()) to.found_inf_local = optimizer.found_inf_local();
    if (optimizer.has_found_inf_decided()) to.found_inf_decided = optimizer.found_inf_decided();
    if (optimizer.outcome() == v1::OUTCOME_APPLIED) to.outcome = domain::Outcome::kApplied;
    if (optimizer.outcome() == v1::OUTCOME_SKIPPED) to.outcome = domain::Outcome::kSkipped;
  }
  return out;
}

// 0 unknown, 1 applied, 2 skipped, 3 partial.
std::int32_t joined_outcome(const v1::ScalerObservation& scaler) {
  int applied = 0;
  int skipped = 0;
  for (const auto& optimizer : scaler.optimizers()) {
    const bool told = optimizer.outcome() == v1::OUTCOME_APPLIED || optimizer.outcome() == v1::OUTCOME_SKIPPED;
    const bool skip = told ? optimizer.outcome() == v1::OUTCOME_SKIPPED : optimizer.found_inf_decided() > 0;
    if (!told && !optimizer.has_found_inf_decided()) continue;
    ++(skip ? skipped : applied);
  }
  if (applied > 0 && skipped > 0) return 3;
  return skipped > 0 ? 2 : applied > 0 ? 1 : 0;
}

}  // namespace

std::string report_fault(const v1::Report& report, const v1::Hello& hello, const domain::TensorTable& table) {
  if (report.attempt() == 0 || report.attempt() > kMaxAttempt)
    return fmt::format("attempt {} is not within 1 to 2^48", report.attempt());
  if (report.blocks_size() > kMaxBlocks) return fmt::format("more than {} blocks", kMaxBlocks);
  if (report.misuse_size() > kMaxMisuse) return fmt::format("more than {} misuse events", kMaxMisuse);
  if (report.has_from_log() && !hello.from_log()) return "from_log: Hello did not say that the run is read from a log";
  if (auto fault = log_fault(report.from_log(), report.attempt()); !fault.empty()) return "from_log: " + fault;
  for (int i = 0; i < report.blocks_size(); ++i) {
    if (auto fault = block_fault(report.blocks(i), table); !fault.empty()) return fmt::format("block {}: {}", i, fault);
  }
  return scalers_fault(report, hello);
}

std::vector<domain::RecordColumns> columns_of(const v1::Report& report) {
  std::vector<domain::RecordColumns> out;
  out.reserve(static_cast<std::size_t>(report.blocks_size()));
  for (const auto& block : report.blocks()) {
    domain::RecordColumns& to = out.emplace_back();
    to.role = static_cast<Role>(block.role());
    to.measured_under_scale = block.measured_under_scale() > 0 ? block.measured_under_scale() : 1;
    to.target = static_cast<DType>(block.target());
    to.first_id = block.first_id();
    to.count = records_in(block);
    to.ids = span_of(block.ids());
    to.micro_batches = std::max(1U, block.micro_batches());
    to.numel = span_of(block.numel());
    to.min = span_of(block.min());
    to.max = span_of(block.max());
    to.absmin_nonzero = span_of(block.absmin_nonzero());
    to.sum = span_of(block.sum());
    to.sum_sq = span_of(block.sum_sq());
    to.zero = span_of(block.zero());
    to.subnormal = span_of(block.subnormal());
    to.flushed = span_of(block.flushed());
    to.nan = sparse_of(block.nan());
    to.pos_inf = sparse_of(block.pos_inf());
    to.neg_inf = sparse_of(block.neg_inf());
    to.over = sparse_of(block.over());
    for (const auto& micro : block.first_bad_micro()) to.first_bad_micro.push_back({micro.index(), micro.micro()});
    for (const auto& histogram : block.exponents()) {
      to.exponents.push_back({histogram.index(), histogram.first_exponent(), span_of(histogram.counts())});
    }
  }
  return out;
}

domain::AttemptDigest digest_of(const v1::Report& report, domain::Rank rank, domain::Attempt attempt, domain::TimeMs now,
                                std::shared_ptr<const domain::TensorTable> table) {
  domain::AttemptDigest out;
  out.rank = rank;
  out.attempt = attempt;
  out.step = report.step();
  out.now = now;
  out.table = std::move(table);
  for (const auto& scaler : report.scalers()) out.scalers.push_back(to_domain(scaler));
  if (report.has_loss()) out.loss = report.loss();
  if (report.has_lr()) out.lr = report.lr();
  if (report.has_grad_norm()) out.grad_norm = report.grad_norm();
  out.grad_norm_scaled = report.grad_norm_scaled();
  out.grad_norm_clipped = report.grad_norm_clipped();
  if (v1::Phase_IsValid(report.phase())) out.phase = static_cast<domain::Phase>(report.phase());
  for (const auto& misuse : report.misuse()) {
    out.misuse.push_back({clipped(misuse.kind(), kMaxKindBytes), clipped(misuse.detail(), kMaxDetailBytes), misuse.raised()});
  }
  out.retrospective = report.retrospective();
  if (report.statistics_lost() != v1::LOSS_CAUSE_UNSPECIFIED) out.statistics_lost = loss_cause(report.statistics_lost());
  if (report.has_input_non_finite()) out.input_non_finite = report.input_non_finite();
  return out;
}

void add_log(const v1::Report& report, domain::AttemptDigest& digest) {
  if (!report.has_from_log()) return;
  const v1::FromLog& log = report.from_log();
  for (const auto& scaler : log.scalers()) digest.declared.push_back(to_domain(scaler));
  for (domain::ScalerObservation& seen : digest.scalers) {
    seen.applied_before = log.applied_before();
    if (seen.scaler == log.fatal_scaler()) seen.fatal = clipped(log.fatal(), kMaxDetailBytes);
  }
  if (log.has_accuracy()) digest.accuracy = log.accuracy();
  digest.outcome_counted = log.outcome_counted();
  for (const auto& difference : log.differences()) {
    domain::RankDifference& to = digest.rank_differences.emplace_back();
    to.what = clipped(difference.what(), kMaxKindBytes);
    to.tensor = clipped(difference.tensor(), kMaxNameBytes);
    if (difference.has_first()) to.first = difference.first();
    if (difference.has_other()) to.other = difference.other();
    if (difference.has_first_value()) to.first_value = difference.first_value();
    if (difference.has_other_value()) to.other_value = difference.other_value();
    to.detail = clipped(difference.detail(), kMaxDetailBytes);
  }
  if (log.tensors().empty()) return;
  auto table = std::make_shared<domain::TensorTable>();
  domain::TensorFaults low;
  low.rule = domain::TensorRule::kLowHeadroom;
  low.since = digest.attempt;
  low.since_step = digest.step;
  for (const auto& tensor : log.tensors()) {
    domain::TensorInfo info;
    info.name = clipped(tensor.name(), kMaxNameBytes);
    info.role = static_cast<Role>(tensor.role());
    info.forward_index = tensor.forward_index();
    if (tensor.nan() || tensor.inf()) {
      domain::NonFiniteTensor& bad = digest.non_finite.emplace_back();
      bad.id = static_cast<std::uint32_t>(table->size());
      bad.nan = tensor.nan() ? 1 : 0;
      bad.pos_inf = tensor.inf() ? 1 : 0;
      digest.observed_gradients |= info.role == Role::kGradient;
      digest.observed_activations |= info.role == Role::kActivation;
      digest.observed_activation_gradients |= info.role == Role::kActivationGradient;
      digest.observed_parameters |= info.role == Role::kParameter;
    } else if (tensor.octaves_beyond() > 0) {
      ++low.tensors;
      if (low.worst.size() < domain::TensorFaults::kMaxWorst)
        low.worst.push_back({info.name, info.role, tensor.octaves_beyond()});
    }
    table->push_back(std::move(info));
  }
  digest.non_finite_total = static_cast<std::uint32_t>(digest.non_finite.size());
  if (low.tensors > 0) digest.tensor_faults.push_back(std::move(low));
  digest.table = std::move(table);
}

ReportRow row_of(const v1::Report& report) {
  ReportRow out;
  out.seq = report.seq();
  out.step = report.step();
  if (report.has_loss()) out.loss = report.loss();
  if (report.has_lr()) out.lr = report.lr();
  if (report.has_grad_norm()) out.grad_norm = report.grad_norm();
  out.retrospective = report.retrospective();
  for (const auto& scaler : report.scalers()) {
    ScalerRow& to = out.scalers.emplace_back();
    to.scaler = scaler.scaler();
    if (scaler.has_scale_before()) to.scale_before = scaler.scale_before();
    if (scaler.has_scale_after()) to.scale_after = scaler.scale_after();
    if (scaler.has_growth_tracker()) to.growth_tracker = static_cast<std::int64_t>(scaler.growth_tracker());
    to.outcome = joined_outcome(scaler);
  }
  out.payload = report.SerializeAsString();
  return out;
}

std::uint64_t record_count(const v1::Report& report) {
  std::uint64_t count = 0;
  for (const auto& block : report.blocks()) count += records_in(block);
  return count;
}

}  // namespace scalewatch::engine
