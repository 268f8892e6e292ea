// Drives a RunState attempt by attempt, as an engine would: every rank reports, then the attempt closes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/domain/policy.h"
#include "server/domain/run_state.h"

namespace scalewatch::domain {

struct DriverOptions {
  std::uint32_t ranks = 1;
  std::string policy = "pytorch";
  PolicyParameters parameters{};
  std::vector<OptimizerInfo> optimizers{{.name = "adam", .class_name = "Adam", .scaler = 0, .lr = 0.001, .fused = false}};
  DType compute = DType::kFp16;
  bool scaler = true;
  Thresholds thresholds{};
};

class Driver {
 public:
  using Edit = std::function<void(AttemptDigest&)>;
  explicit Driver(DriverOptions options = {});

  // Folds an input and keeps what it changed.
  void send(const Input& input);
  // One attempt of all ranks under the policy; `skip`: its gradients overflowed. `edit` changes each rank's digest.
  void attempt(bool skip, const Edit& edit = {});
  void attempts(int count, bool skip, const Edit& edit = {}) {
    for (int i = 0; i < count; ++i) attempt(skip, edit);
  }
  // A rank's digest of the coming attempt, before the scaler's update.
  [[nodiscard]] AttemptDigest digest(Rank rank, bool skip) const;
  void join(Rank rank);
  void leave_all();
  void close(Attempt attempt, std::vector<Rank> missing = {});

  // Newest word on a rule's finding (of any subject), open or resolved; null when it never fired.
  [[nodiscard]] const Finding* find(const std::string& rule) const;
  [[nodiscard]] int count(const std::string& rule, FindingEvent::Change change) const;
  [[nodiscard]] bool open(const std::string& rule) const { return find(rule) != nullptr && find(rule)->open; }
  [[nodiscard]] Severity worst() const;

  DriverOptions options;
  RunState state;
  std::unique_ptr<Policy> policy;
  std::vector<FindingEvent> events;
  Attempt next = 1;
  TimeMs now = 1'000'000;
  std::shared_ptr<const TensorTable> table;
};

// Ids of the driver's table: three layers of weight, gradient, activation, its gradient and exp_avg; a buffer of the second.
enum TensorId : std::uint32_t {
  kWeight0,
  kGrad0,
  kAct0,
  kActGrad0,
  kState0,
  kWeight1,
  kGrad1,
  kAct1,
  kActGrad1,
  kState1,
  kWeight2,
  kGrad2,
  kAct2,
  kActGrad2,
  kState2,
  kBuffer1,
};

void add_bad(AttemptDigest& digest, std::uint32_t id, std::uint64_t nan, std::uint64_t pos_inf = 0, std::uint64_t neg_inf = 0);

}  // namespace scalewatch::domain
