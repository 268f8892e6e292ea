#include "tests/unit/domain/graphs/run.h"

#include <cmath>
#include <memory>
#include <utility>

#include "server/domain/run_state.h"
#include "tests/unit/domain/folded_run.h"

namespace scalewatch::domain::graphs {
namespace {

constexpr std::array kRoles{Role::kParameter,          Role::kGradient,       Role::kActivation,
                            Role::kActivationGradient, Role::kOptimizerState, Role::kBuffer};

bool of_weight(Role role) {
  return role == Role::kParameter || role == Role::kGradient || role == Role::kOptimizerState;
}
bool flows(Role role) {
  return role == Role::kActivation || role == Role::kActivationGradient;
}

class Server {
 public:
  explicit Server(const Scenario& scenario) : s_(scenario), random_(scenario.seed + 1) {
    make_tables();
    fold(SegmentOpened{1, now_});
    for (Rank rank = 0; rank < s_.setup.ranks; ++rank) {
      RankJoined joined;
      joined.rank = rank;
      joined.world_size = s_.setup.ranks;
      joined.host = std::string("node") + std::to_string(rank / 2);
      joined.gpu_uuid = std::string("GPU-") + std::to_string(rank);
      joined.compute_dtype = DType::kFp16;
      if (s_.setup.scaler) joined.scalers = {{"default", "pytorch", {{"init_scale", s_.setup.init_scale}}}};
      joined.optimizers = {{.name = "sgd", .class_name = "SGD", .scaler = 0, .lr = 0.002}};
      joined.now = now_;
      states_[rank].configure(joined, {});
      fold(joined);
    }
  }

  void take(const Step& step) {
    ++attempt_;
    now_ += 100;
    std::vector<Rank> order;
    for (Rank rank = 0; rank < s_.setup.ranks; ++rank) order.push_back(rank);
    random_.shuffle(order);
    for (const Rank rank : order) {
      report(step, rank, false);
      if (s_.watch.told_twice && random_.chance(50))
        report(step, rank, false);  // a second word on an attempt counts for nothing
    }
    fold(AttemptClosed{attempt_, {}, now_});
    ring_.push_back(step);
  }

  // The ring's last attempts, in their order, as detail.
  void tell_late() {
    const Attempt newest = attempt_;
    for (std::size_t back = std::min<std::size_t>(3, ring_.size()); back-- > 0;) {
      attempt_ = newest - back;
      for (Rank rank = 0; rank < s_.setup.ranks; ++rank) report(ring_[ring_.size() - 1 - back], rank, true);
    }
    attempt_ = newest;
    for (const Finding& finding : run_.view().open) keep(finding);
  }

  std::map<Attempt, std::vector<Heard>> heard() const {
    std::map<Attempt, std::vector<Heard>> heard;
    for (const auto& [key, blame] : blames_) heard[key.first].push_back({key.second, blame});
    return heard;
  }

 private:
  // Ids in no order, and each rank's own names of its shards.
  void make_tables() {
    std::vector<std::pair<Role, std::size_t>> tensors;
    for (std::size_t node = 0; node < s_.graph.nodes.size(); ++node) {
      for (const Role role : kRoles) {
        const bool there =
            role == Role::kBuffer ? s_.graph.nodes[node].op == Op::kCentre : (flows(role) || s_.graph.weighted(node));
        if (there && !(flows(role) && s_.watch.hidden[node]) && !(of_weight(role) && s_.watch.hidden_weight[node])) {
          tensors.emplace_back(role, node);
        }
      }
    }
    random_.shuffle(tensors);
    for (Rank rank = 0; rank < s_.setup.ranks; ++rank) {
      TensorTable table;
      for (const auto& [role, node] : tensors) {
        TensorInfo info;
        info.name = s_.graph.nodes[node].name;
        if (of_weight(role)) info.name += ".weight";
        if (role == Role::kOptimizerState) info.name += ".exp_avg";
        if (role == Role::kBuffer) info.name += ".running_mean";
        info.role = role;
        info.dtype = flows(role) || role == Role::kGradient ? DType::kFp16 : DType::kFp32;
        info.numel = of_weight(role) ? kWidth * kWidth : (role == Role::kBuffer ? kWidth : kSize);
        info.forward_index = static_cast<std::uint32_t>(node);
        const std::string own = s_.setup.ranks > 1 ? std::to_string(rank) : "";
        if (flows(role) || role == Role::kBuffer || s_.setup.sharded) {
          info.shard = own;
        } else {
          info.replica = own;
        }
        if (of_weight(role)) info.optimizer = "sgd";
        table.push_back(std::move(info));
      }
      tables_[rank] = std::make_shared<const TensorTable>(std::move(table));
    }
    for (std::uint32_t id = 0; id < tensors.size(); ++id) ids_[tensors[id]] = id;
  }

  [[nodiscard]] bool collected(Role role, bool late) const {
    const Watch& watch = s_.watch;
    switch (role) {
      case Role::kActivation:
        return watch.activations && watch.late == late;
      case Role::kActivationGradient:
        return watch.activation_gradients && watch.late == late;
      case Role::kGradient:
        return watch.gradients && !late;
      default:
        return watch.state && !late;
    }
  }

  void report(const Step& step, Rank rank, bool late) {
    const RankStep& told = step.ranks[rank];
    AttemptDigest digest;
    digest.rank = rank;
    digest.attempt = attempt_;
    digest.step = static_cast<std::int64_t>(attempt_);
    digest.now = now_;
    digest.table = tables_[rank];
    digest.retrospective = late;
    if (s_.watch.loss) digest.loss = told.loss;
    if (s_.watch.input) digest.input_non_finite = told.input_non_finite;
    if (s_.setup.scaler) digest.scalers = {observation(step, told)};
    std::vector<RecordStore> stores;
    for (const Role role : kRoles) {
      if (!collected(role, late)) continue;
      stores.push_back(block(told, role, rank, step.scale_before));
      if (role == Role::kActivation && s_.watch.told_twice) stores.push_back(stores.back());  // recomputed for backward
    }
    std::vector<RecordColumns> blocks;
    for (const RecordStore& store : stores) {
      if (store.columns.count > 0) blocks.push_back(store.view());
    }
    states_[rank].fold(blocks, digest);
    fold(digest);
  }

  [[nodiscard]] ScalerObservation observation(const Step& step, const RankStep& told) const {
    ScalerObservation scaler;
    scaler.scale_before = step.scale_before;
    scaler.scale_after = step.scale_after;
    OptimizerObservation optimizer;
    if (s_.watch.local == Watch::FoundInf::kBefore) optimizer.found_inf_local = told.bad_before ? 1 : 0;
    if (s_.watch.local == Watch::FoundInf::kAfter) optimizer.found_inf_local = told.bad_after ? 1 : 0;
    optimizer.found_inf_decided = step.found_inf ? 1 : 0;
    scaler.optimizers = {optimizer};
    return scaler;
  }

  [[nodiscard]] RecordStore block(const RankStep& told, Role role, Rank rank, double scale) const {
    RecordStore store;
    store.columns.role = role;
    store.columns.target = flows(role) || role == Role::kGradient ? DType::kFp16 : DType::kFp32;
    store.columns.measured_under_scale = role == Role::kGradient || role == Role::kActivationGradient ? scale : 1;
    store.columns.micro_batches = flows(role) ? s_.setup.micros : 1;
    std::map<std::uint32_t, const Measured*> by_id;
    for (const auto& [at, tensor] : told.tensors) {
      const auto id = ids_.find(at);
      const bool wanted = !s_.watch.leader || rank == 0 || tensor.record.non_finite() > 0;
      if (at.first == role && id != ids_.end() && wanted) by_id[id->second] = &tensor;
    }
    for (const auto& [id, tensor] : by_id) store.add(id, tensor->record, tensor->first_bad_micro);
    return store;
  }

  void fold(const Input& input) {
    for (const FindingEvent& event : run_.fold(input)) keep(event.finding);
  }
  void keep(const Finding& finding) {
    // Without a place it only names the tensor that a rule over tensors speaks of.
    if (!finding.blame || finding.blame->where.empty()) return;
    blames_[{finding.blame->attempt, finding.rule + "/" + finding.subject}] = *finding.blame;
  }

  const Scenario& s_;
  Random random_;
  RunState run_;
  std::map<Rank, RankState> states_;
  std::map<Rank, std::shared_ptr<const TensorTable>> tables_;
  std::map<TensorAtNode, std::uint32_t> ids_;
  std::vector<Step> ring_;
  std::map<std::pair<Attempt, std::string>, Blame> blames_;
  Attempt attempt_ = 0;
  TimeMs now_ = 1'000'000;
};

}  // namespace

RunOutcome run(const Scenario& scenario) {
  RunOutcome outcome;
  Trainer trainer(scenario.graph, scenario.setup, scenario.seed + 2);
  Server server(scenario);
  const auto healthy = [&] {
    const Step step = trainer.step({});
    outcome.healthy = outcome.healthy && step.finite();
    server.take(step);
  };
  for (std::size_t i = 0; i < scenario.healthy; ++i) healthy();
  const Step step = trainer.step(scenario.faults);
  server.take(step);
  outcome.fault = scenario.healthy + 1;
  outcome.skipped = !step.applied;
  if (scenario.watch.late) server.tell_late();
  server.take(trainer.step({}));
  outcome.heard = server.heard();
  return outcome;
}

std::vector<Blame> run_growing(const Scenario& scenario, const std::vector<float>& rates) {
  constexpr int kHealthy = 10;
  constexpr int kMost = 200;
  Trainer trainer(scenario.graph, scenario.setup, scenario.seed + 2);
  Server server(scenario);
  std::vector<Blame> blames;
  for (int attempt = 0; attempt < kMost && blames.empty(); ++attempt) {
    for (std::size_t node = 0; attempt >= kHealthy && node < rates.size(); ++node)
      trainer.scale_weight(node, std::exp2(rates[node]));
    server.take(trainer.step({}));
    for (const auto& [at, heard] : server.heard()) {
      for (const Heard& each : heard) blames.push_back(each.blame);
    }
  }
  return blames;
}

}  // namespace scalewatch::domain::graphs
