#include "tests/unit/domain/tensor_driver.h"

#include <cmath>
#include <utility>

namespace scalewatch::domain {
namespace {

struct BlockStore {
  std::vector<std::uint32_t> ids;
  std::vector<float> min, max, absmin;
  std::vector<double> sum, sum_sq;
  std::vector<std::uint64_t> numel, zero, subnormal, flushed;
  RecordColumns columns;

  void add(std::uint32_t id, const Shape& shape) {
    const auto index = static_cast<std::uint32_t>(ids.size());
    ids.push_back(id);
    min.push_back(static_cast<float>(-shape.absmax));
    max.push_back(static_cast<float>(shape.high < 0 ? shape.absmax / 2 : shape.high));
    absmin.push_back(shape.absmax > 0 ? static_cast<float>(shape.absmax) * 0x1p-10F : NAN);
    sum.push_back(0);
    sum_sq.push_back(shape.rms * shape.rms * static_cast<double>(shape.numel));
    numel.push_back(shape.numel);
    zero.push_back(shape.zero);
    subnormal.push_back(shape.subnormal);
    flushed.push_back(shape.flushed);
    const auto sparse = [&](std::vector<SparseCount>& list, std::uint64_t count) {
      if (count > 0) list.push_back({index, count});
    };
    sparse(columns.nan, shape.nan);
    sparse(columns.pos_inf, shape.pos_inf);
    sparse(columns.neg_inf, shape.neg_inf);
    sparse(columns.over, shape.over);
    if (!shape.exponents.empty()) columns.exponents.push_back({index, shape.first_exponent, shape.exponents});
  }
  RecordColumns view() {
    columns.count = static_cast<std::uint32_t>(ids.size());
    columns.ids = ids;
    columns.min = min;
    columns.max = max;
    columns.absmin_nonzero = absmin;
    columns.sum = sum;
    columns.sum_sq = sum_sq;
    columns.numel = numel;
    columns.zero = zero;
    columns.subnormal = subnormal;
    columns.flushed = flushed;
    return columns;
  }
};

DriverOptions with_states(TensorDriver::Options options) {
  for (OptimizerInfo& optimizer : options.run.optimizers) {
    optimizer.state_dtypes = options.state_dtypes;
    optimizer.eps = options.eps;
  }
  return std::move(options.run);
}

}  // namespace

TensorDriver::TensorDriver(Options given) : options(given), run(with_states(std::move(given))) {
  rank.configure(joined(), run.options.thresholds);
}

RankJoined TensorDriver::joined() const {
  RankJoined out;
  out.compute_dtype = run.options.compute;
  if (run.options.scaler) out.scalers = {{"default", run.options.policy, run.options.parameters}};
  out.optimizers = run.options.optimizers;
  return out;
}

std::uint32_t TensorDriver::add(const std::string& name, Role role, DType dtype, std::uint64_t numel) {
  TensorInfo info;
  info.name = name;
  info.role = role;
  info.dtype = dtype;
  info.numel = numel;
  info.forward_index = static_cast<std::uint32_t>(table.size());
  if (role == Role::kGradient) info.optimizer = "adam";
  table.push_back(info);
  return static_cast<std::uint32_t>(table.size() - 1);
}

void TensorDriver::attempt(const std::map<std::uint32_t, Shape>& shapes, bool skip, const Driver::Edit& edit) {
  run.table = std::make_shared<const TensorTable>(table);
  const double scale = run.options.scaler && !unscaled ? run.policy->scale() : 1;
  run.attempt(skip, [&](AttemptDigest& digest) {
    if (edit) edit(digest);
    if (digest.rank > 0) return;
    std::map<Role, BlockStore> stores;
    for (const auto& [id, shape] : shapes) stores[table[id].role].add(id, shape);
    std::vector<RecordColumns> blocks;
    for (auto& [role, store] : stores) {
      store.columns.role = role;
      store.columns.target = options.target;
      const bool scaled = role == Role::kGradient || role == Role::kActivationGradient;
      store.columns.measured_under_scale = scaled ? scale : 1;
      blocks.push_back(store.view());
    }
    rank.fold(blocks, digest);
  });
}

void TensorDriver::restart() {
  RankState next;
  next.configure(joined(), run.options.thresholds);
  next.load(rank.save());
  rank = std::move(next);
  RunState state(run.options.thresholds);
  state.load(run.state.save());
  run.state = std::move(state);
}

}  // namespace scalewatch::domain
