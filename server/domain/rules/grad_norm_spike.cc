// The gradient norm jumped by orders of magnitude.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/norm.h"
#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

class GradNormSpike : public PersistedRule<GradNormSpike> {
 public:
  [[nodiscard]] std::string_view name() const override { return "GradNormSpike"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    const double norm = reported_norm(attempt.joined);
    if (std::isnan(norm)) return;
    const Thresholds& t = context.thresholds;
    const double median = norms_.median();
    const bool known = norms_.size() >= t.norm_spike_min_samples;
    // A record that stands for many attempts says more than one of a single attempt.
    const bool coarse = norms_.size() > 0 && attempt.attempt() >= last_attempt_ + t.coarse_log;
    const double octaves = median > 0 && norm > median ? std::log2(norm / median) : 0;
    last_attempt_ = attempt.attempt();
    norms_.push(norm, t.norm_spike_window);
    ++samples_;
    const bool large = known && octaves >= t.norm_spike_octaves;
    if (large) spikes_.push_back(samples_);
    while (!spikes_.empty() && spikes_.front() + t.norm_spike_recent <= samples_) spikes_.pop_front();
    const bool often = large && spikes_.size() >= t.norm_spike_times;
    // Of a log nobody knows what it leaves out; what is so far up needs no more than one to compare with.
    const bool absurd = context.run.from_log && norms_.size() > 1 && octaves >= 2 * t.norm_spike_once_octaves;
    const bool once = absurd || ((known || coarse) && octaves >= t.norm_spike_once_octaves);
    if (!often && !once) {
      if (!large && episodes_.clean({}, t.event_resolve)) context.sink.resolve(name(), {});
      return;
    }
    episodes_.fired({});
    const Finding* open = context.sink.find(name(), {});
    Draft draft;
    draft.rule = name();
    draft.first_attempt = open != nullptr ? open->first_attempt : attempt.attempt();
    draft.first_step = open != nullptr ? open->first_step : attempt.step();
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.summary = fmt::format("the gradient norm is {} at step {}, {:.0f} times its median {}", number_text(norm),
                                attempt.step(), std::exp2(octaves), number_text(median));
    if (often)
      draft.summary += fmt::format("; the {} such jump within {} samples", ordinal(spikes_.size()), t.norm_spike_recent);
    draft.evidence = {{"grad_norm", norm, "", {}},
                      {"median", median, "", {}},
                      {"octaves", octaves, "octaves", once ? t.norm_spike_once_octaves : t.norm_spike_octaves},
                      {"times", static_cast<double>(spikes_.size()), "samples", static_cast<double>(t.norm_spike_times)}};
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(norms_, spikes_, samples_, last_attempt_, episodes_);
  }

 private:
  static std::string ordinal(std::size_t number) { return fmt::format("{}{}", number, number == 3 ? "rd" : "th"); }

  Samples norms_;
  std::deque<std::uint64_t> spikes_;  // of the last samples, by number
  std::uint64_t samples_ = 0;
  Attempt last_attempt_ = 0;
  Episodes episodes_;
};

}  // namespace

std::unique_ptr<Rule> make_grad_norm_spike() {
  return std::make_unique<GradNormSpike>();
}

}  // namespace scalewatch::domain
