// A rule turns what happened into findings. One file each in this folder, one line each in list.cc.
//
// A rule keeps its own windows, persists them, and is made anew for each segment. It reads the model and never changes it.
// Deterministic; not thread-safe.
#pragma once

#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "server/domain/archive.h"
#include "server/domain/blame.h"
#include "server/domain/model.h"
#include "server/domain/scaler_track.h"
#include "server/domain/sink.h"
#include "server/domain/text.h"
#include "server/domain/thresholds.h"

namespace scalewatch::domain {

// A closed attempt, with what was derived of it once for all rules. The model stands as before it.
struct ClosedAttempt {
  const JoinedAttempt& joined;
  const std::map<TensorKey, PoisonedTensor>& poisoned;  // state tensors non-finite as of this attempt
  AttemptOutcome outcome = AttemptOutcome::kUnknown;    // over all scalers
  std::optional<Blame> blame;
  bool training = true;
  [[nodiscard]] Attempt attempt() const { return joined.attempt; }
  [[nodiscard]] std::int64_t step() const { return joined.step(); }
};

// Something that a rank measured and the server never gets.
struct LossSeen {
  Rank rank = 0;
  LossCause cause = LossCause::kInternal;
  std::uint64_t reports = 0;  // whole ones
  std::uint64_t thinned = 0;  // that came without their full statistics
  Attempt attempt = 0;        // where the run was then
};

struct RuleContext {
  const RunModel& run;
  const Thresholds& thresholds;
  Sink& sink;
};

// Steps are told before their attempt closes; so many at most, for no more attempts than this wait for a rank that is away.
constexpr std::size_t kMaxAhead = 2048;

class Rule {
 public:
  virtual ~Rule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Whether on_step() and on_attempt() do anything: only then are they called.
  [[nodiscard]] virtual bool looks_at_steps() const = 0;
  [[nodiscard]] virtual bool looks_at_attempts() const = 0;
  // on_attempt() does nothing while no rank has faults of tensors and none had any at the attempt before: it is not called
  // then.
  [[nodiscard]] virtual bool only_tensor_faults() const { return false; }
  // One attempt of one scaler, as soon as its leader told it.
  virtual void on_step(const ScalerStep& /*step*/, const RuleContext& /*context*/) {}
  // All ranks have told theirs, or won't.
  virtual void on_attempt(const ClosedAttempt& /*attempt*/, const RuleContext& /*context*/) {}
  virtual void on_liveness(const Liveness& /*liveness*/, const RuleContext& /*context*/) {}
  virtual void on_loss(const LossSeen& /*loss*/, const RuleContext& /*context*/) {}
  virtual void on_lag(const ServerLag& /*lag*/, const RuleContext& /*context*/) {}
  virtual void on_left(Rank /*rank*/, const RuleContext& /*context*/) {}
  // The run is over: every rank said goodbye, or all are gone.
  virtual void on_end(const RuleContext& /*context*/) {}
  virtual void save(Writer& writer) = 0;
  virtual void load(Reader& reader) = 0;
};

// Says of a rule which of the functions that are called at every attempt are its own.
template <class Derived>
class LookingRule : public Rule {
 public:
  [[nodiscard]] bool looks_at_steps() const final {
    return !std::is_same_v<decltype(&Derived::on_step), decltype(&Rule::on_step)>;
  }
  [[nodiscard]] bool looks_at_attempts() const final {
    return !std::is_same_v<decltype(&Derived::on_attempt), decltype(&Rule::on_attempt)>;
  }
};

// Gives a rule with a `persist(archive)` member its save and load.
template <class Derived>
class PersistedRule : public LookingRule<Derived> {
 public:
  void save(Writer& writer) override { static_cast<Derived*>(this)->persist(writer); }
  void load(Reader& reader) override { static_cast<Derived*>(this)->persist(reader); }
};

// A rule without state.
template <class Derived>
class StatelessRule : public LookingRule<Derived> {
 public:
  void save(Writer& /*writer*/) override {}
  void load(Reader& /*reader*/) override {}
};

// Counts the clean attempts since a single-attempt finding last fired, by subject.
class Episodes {
 public:
  void fired(const std::string& subject) { clean_[subject] = 0; }
  [[nodiscard]] bool active(const std::string& subject) const { return clean_.contains(subject); }
  [[nodiscard]] bool none() const { return clean_.empty(); }
  // One attempt without. True once `limit` came in a row: resolve.
  bool clean(const std::string& subject, std::uint32_t limit) {
    const auto found = clean_.find(subject);
    if (found == clean_.end() || ++found->second < limit) return false;
    clean_.erase(found);
    return true;
  }
  template <class A>
  void persist(A& a) {
    a(clean_);
  }

 private:
  std::map<std::string, std::uint32_t> clean_;
};

// A finding about one of several optimizers of a scaler names it; alone it goes without saying.
inline std::string optimizer_subject(const ScalerTrack& scaler, const OptimizerTrack& optimizer) {
  if (scaler.declared_optimizers < 2 && &optimizer == scaler.optimizers.data()) return scaler.info.name;
  return scaler.info.name + "/" + (optimizer.name.empty() ? std::to_string(optimizer.index) : optimizer.name);
}
// The ranks that a finding names: none when it is all of them. One that failed is often the only one that told of its attempt.
std::vector<Rank> ranks_to_name(const std::vector<Rank>& ranks, const ClosedAttempt& attempt, const RuleContext& context);
bool all_silent(const Liveness& liveness, const Thresholds& thresholds);

// In a fixed order, which is the order of events within one input.
std::vector<std::unique_ptr<Rule>> make_rules();

}  // namespace scalewatch::domain
