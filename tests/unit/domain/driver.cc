#include "tests/unit/domain/driver.h"

#include <algorithm>

namespace scalewatch::domain {
namespace {

std::shared_ptr<const TensorTable> make_table() {
  TensorTable table;
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    const std::string name = std::string("layers.") + std::to_string(layer);
    const auto add = [&](const std::string& full, Role role) {
      table.push_back({.name = full,
                       .role = role,
                       .dtype = DType::kFp16,
                       .numel = 100,
                       .forward_index = layer,
                       .shard = {},
                       .replica = role == Role::kParameter ? "dp" : "",
                       .optimizer = role == Role::kGradient ? "adam" : ""});
    };
    add(name + ".weight", Role::kParameter);
    add(name + ".weight", Role::kGradient);
    add(name, Role::kActivation);
    add(name, Role::kActivationGradient);
    add(name + ".weight.exp_avg", Role::kOptimizerState);
  }
  table.push_back({.name = "layers.1.running_var",
                   .role = Role::kBuffer,
                   .dtype = DType::kFp32,
                   .numel = 10,
                   .forward_index = 1,
                   .shard = {},
                   .replica = {},
                   .optimizer = {}});
  return std::make_shared<const TensorTable>(std::move(table));
}

}  // namespace

void add_bad(AttemptDigest& digest, std::uint32_t id, std::uint64_t nan, std::uint64_t pos_inf, std::uint64_t neg_inf) {
  digest.non_finite.push_back({.id = id, .nan = nan, .pos_inf = pos_inf, .neg_inf = neg_inf, .first_bad_micro = {}});
  digest.non_finite_total = static_cast<std::uint32_t>(digest.non_finite.size());
}

Driver::Driver(DriverOptions given)
    : options(std::move(given)),
      state(options.thresholds),
      policy(make_policy(options.policy, options.parameters)),
      table(make_table()) {
  send(SegmentOpened{1, now});
  for (Rank rank = 0; rank < options.ranks; ++rank) join(rank);
}

void Driver::send(const Input& input) {
  for (FindingEvent& event : state.fold(input)) events.push_back(std::move(event));
}

void Driver::join(Rank rank) {
  RankJoined joined;
  joined.rank = rank;
  joined.world_size = options.ranks;
  joined.host = std::string("node") + std::to_string(rank / 2);
  joined.pid = 100 + rank;
  joined.gpu_uuid = std::string("GPU-") + std::to_string(rank);
  joined.compute_dtype = options.compute;
  if (options.scaler) joined.scalers = {{"default", options.policy, options.parameters}};
  joined.optimizers = options.optimizers;
  joined.now = now;
  send(joined);
}

AttemptDigest Driver::digest(Rank rank, bool skip) const {
  AttemptDigest digest;
  digest.rank = rank;
  digest.attempt = next;
  digest.step = static_cast<std::int64_t>(next) * 10;
  digest.now = now;
  digest.table = table;
  digest.loss = 1.0;
  if (!options.scaler) return digest;
  ScalerObservation scaler;
  scaler.scale_before = policy->scale();
  for (std::uint32_t i = 0; i < options.optimizers.size(); ++i) {
    scaler.optimizers.push_back({.optimizer = i,
                                 .found_inf_local = skip ? 1.0 : 0.0,
                                 .found_inf_decided = skip ? 1.0 : 0.0,
                                 .outcome = Outcome::kUnknown});
  }
  digest.scalers = {scaler};
  return digest;
}

void Driver::attempt(bool skip, const Edit& edit) {
  std::vector<AttemptDigest> digests;
  for (Rank rank = 0; rank < options.ranks; ++rank) digests.push_back(digest(rank, skip));
  const double after = policy->update(skip);
  for (AttemptDigest& digest : digests) {
    if (!digest.scalers.empty()) digest.scalers[0].scale_after = after;
    if (edit) edit(digest);
    send(digest);
  }
  close(next++);
  now += 100;
}

void Driver::close(Attempt attempt, std::vector<Rank> missing) {
  send(AttemptClosed{attempt, std::move(missing), now});
}

void Driver::leave_all() {
  for (Rank rank = 0; rank < options.ranks; ++rank) send(RankLeft{rank, "finished", now});
}

const Finding* Driver::find(const std::string& rule) const {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->finding.rule == rule) return &event->finding;
  }
  return nullptr;
}

int Driver::count(const std::string& rule, FindingEvent::Change change) const {
  return static_cast<int>(std::count_if(events.begin(), events.end(), [&](const FindingEvent& event) {
    return event.finding.rule == rule && event.change == change;
  }));
}

Severity Driver::worst() const {
  Severity worst = Severity::kNone;
  for (const FindingEvent& event : events) worst = std::max(worst, event.finding.severity);
  return worst;
}

}  // namespace scalewatch::domain
