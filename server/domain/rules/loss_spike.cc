// The loss jumped, and stays up; or it jumped as the scaler began to back off.
#include <fmt/core.h>

#include "server/domain/rules/norm.h"
#include "server/domain/rules/rules.h"
#include "server/domain/rules/samples.h"

namespace scalewatch::domain {
namespace {

class LossSpike : public PersistedRule<LossSpike> {
 public:
  [[nodiscard]] std::string_view name() const override { return "LossSpike"; }

  void on_step(const ScalerStep& step, const RuleContext& /*context*/) override {
    if (step.backed_off) note<Attempt>(backoffs_, step.attempt, kMaxAhead);
  }

  void on_attempt(const ClosedAttempt& attempt, const RuleContext& context) override {
    const Thresholds& t = context.thresholds;
    while (!backoffs_.empty() && backoffs_.front() + kMaxNoted < attempt.attempt()) backoffs_.pop_front();
    const double loss = finite_loss(attempt.joined);
    const bool told = !std::isnan(loss);
    bool in_a_row = false;
    double median = 0;
    double limit = 0;
    if (told) {
      median = losses_.median();
      const double share = t.loss_spike_share * std::abs(median);
      // Most losses are not even this far up: then it does not matter how much they usually differ.
      const bool up = losses_.size() >= t.loss_spike_min_samples && loss > median + share;
      if (up) limit = median + std::max(t.loss_spike_mads * losses_.mad(median), share);
      if (up && loss > limit) {
        if (streak_++ == 0) {
          first_attempt_ = attempt.attempt();
          first_step_ = attempt.step();
        }
        in_a_row = streak_ >= t.loss_spike_in_a_row;
      } else {
        streak_ = 0;
      }
      if (losses_.size() > 0 && median > 0 && loss >= t.loss_spike_early_ratio * median) {
        note<Jump>(jumps_, {attempt.attempt(), attempt.step(), loss, median});
      }
      losses_.push(loss, t.loss_spike_window);
    }
    if (in_a_row) {
      fire(attempt, first_attempt_, first_step_, loss, median, limit,
           fmt::format("the loss is {} at step {} and was above {} for {} attempts in a row; its median was {}",
                       number_text(loss), attempt.step(), number_text(limit), streak_, number_text(median)),
           context);
      return;
    }
    if (const auto jump = jump_at_backoffs(attempt.attempt())) {
      jumps_.clear();
      fire(attempt, jump->attempt, jump->step, jump->loss, jump->median, t.loss_spike_early_ratio * jump->median,
           fmt::format("the loss jumped from about {} to {} at step {} while the scale backed off twice in a row",
                       number_text(jump->median), number_text(jump->loss), jump->step),
           context);
      return;
    }
    if (told && streak_ == 0 && episodes_.clean({}, t.event_resolve)) context.sink.resolve(name(), {});
  }

  template <class A>
  void persist(A& a) {
    a(losses_, streak_, first_attempt_, first_step_, backoffs_, jumps_, episodes_);
  }

 private:
  static constexpr std::size_t kMaxNoted = 16;

  struct Jump {
    Attempt attempt = 0;
    std::int64_t step = 0;
    double loss = 0;
    double median = 0;  // before it
    template <class A>
    void persist(A& a) {
      a(attempt, step, loss, median);
    }
  };

  template <class T>
  static void note(std::deque<T>& all, T one, std::size_t most = kMaxNoted) {
    all.push_back(std::move(one));
    if (all.size() > most) all.pop_front();
  }

  // The newest jump of the loss at one of two backoffs in a row. Steps are told before their attempt closes, some more and some
  // less; only those up to the closed one count, so that the finding does not depend on how far ahead they were.
  [[nodiscard]] std::optional<Jump> jump_at_backoffs(Attempt closed) const {
    const auto backed_off = [&](Attempt attempt) {
      return attempt <= closed && std::find(backoffs_.begin(), backoffs_.end(), attempt) != backoffs_.end();
    };
    for (auto jump = jumps_.rbegin(); jump != jumps_.rend(); ++jump) {
      if (!backed_off(jump->attempt)) continue;
      if (backed_off(jump->attempt - 1) || backed_off(jump->attempt + 1)) return *jump;
    }
    return std::nullopt;
  }

  void fire(const ClosedAttempt& attempt, Attempt first_attempt, std::int64_t first_step, double loss, double median,
            double limit, std::string summary, const RuleContext& context) {
    episodes_.fired({});
    const Finding* open = context.sink.find(name(), {});
    Draft draft;
    draft.rule = name();
    draft.first_attempt = open != nullptr ? open->first_attempt : first_attempt;
    draft.first_step = open != nullptr ? open->first_step : first_step;
    draft.attempt = attempt.attempt();
    draft.step = attempt.step();
    draft.summary = std::move(summary);
    draft.evidence = {
        {"loss", loss, "", limit},
        {"median", median, "", {}},
        {"in_a_row", static_cast<double>(streak_), "attempts", static_cast<double>(context.thresholds.loss_spike_in_a_row)}};
    context.sink.raise(std::move(draft));
  }

  Samples losses_;
  std::uint32_t streak_ = 0;
  Attempt first_attempt_ = 0;  // of the streak
  std::int64_t first_step_ = 0;
  std::deque<Attempt> backoffs_;
  std::deque<Jump> jumps_;
  Episodes episodes_;
};

}  // namespace

std::unique_ptr<Rule> make_loss_spike() {
  return std::make_unique<LossSpike>();
}

}  // namespace scalewatch::domain
