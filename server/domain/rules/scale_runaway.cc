// The scale grows beyond any use: nothing overflows, because there is nothing to overflow.
#include <fmt/core.h>

#include <cmath>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

class ScaleRunaway : public PersistedRule<ScaleRunaway> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScaleRunaway"; }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    std::optional<bool> zero;
    for (const RankReport& report : attempt.joined.reports) {
      if (report.observed_gradients) zero = zero.value_or(true) && report.gradients_zero;
    }
    if (zero) zeros_ = *zero ? zeros_ + 1 : 0;
    Few<std::uint32_t> seen;
    for (const RankReport& report : attempt.joined.reports) {
      for (const ScalerReport& scaler : report.scalers) {
        if (std::find(seen.begin(), seen.end(), scaler.track) != seen.end()) continue;
        seen.push_back(scaler.track);
        look(attempt, context.run.scalers[scaler.track], scaler.seen, context);
      }
    }
  }

  template <class A>
  void persist(A& a) {
    a(episodes_, zeros_);
  }

 private:
  void look(const ClosedAttempt& attempt, const ScalerTrack& track, const ScalerObservation& seen, const RuleContext& context) {
    const auto now = seen.scale_after ? seen.scale_after : seen.scale_before;
    if (!track.dynamic || !now) return;
    const Thresholds& t = context.thresholds;
    const std::string& subject = track.info.name;
    const bool broken = !std::isfinite(*now);
    const auto limit = [&] { return std::max(t.runaway_scale, track.init * std::exp2(t.runaway_octaves)); };
    const bool high = !broken && *now > t.runaway_scale && *now > limit();
    const bool grew = seen.scale_before && seen.scale_after && *seen.scale_after > *seen.scale_before;
    const bool blind = grew && zeros_ >= t.runaway_zeros;
    if (!broken && !high && !blind) {
      if (episodes_.clean(subject, t.event_resolve)) context.sink.resolve(name(), subject);
      return;
    }
    episodes_.fired(subject);
    const Finding* open = context.sink.find(name(), subject);
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.first_attempt = open != nullptr ? open->first_attempt : attempt.attempt();
    draft.first_step = open != nullptr ? open->first_step : attempt.step();
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    if (broken) {
      draft.summary = fmt::format("the scale of {} is {}: scaled gradients can't be finite any more", scaler_text(subject),
                                  number_text(*now));
    } else if (high) {
      draft.summary = fmt::format("the scale of {} grew to {}, above {}: nothing overflows, so gradients are next to nothing",
                                  scaler_text(subject), scale_text(*now), scale_text(limit()));
    } else {
      draft.summary = fmt::format("the scale of {} grew to {} while every gradient was 0 in {} samples in a row",
                                  scaler_text(subject), scale_text(*now), zeros_);
    }
    draft.evidence = {{"scale", *now, "", limit()},
                      {"init_scale", track.init, "", {}},
                      {"zero_samples", static_cast<double>(zeros_), "samples", static_cast<double>(t.runaway_zeros)}};
    context.sink.raise(std::move(draft));
  }

  Episodes episodes_;
  std::uint64_t zeros_ = 0;  // samples in a row in which all gradients were 0
};

}  // namespace

std::unique_ptr<Rule> make_scale_runaway() {
  return std::make_unique<ScaleRunaway>();
}

}  // namespace scalewatch::domain
