// The scale fell far below where it used to be, or below what leaves small gradients any room.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/domain/rules/rules.h"

namespace scalewatch::domain {
namespace {

// log2, remembered: a scale stays as it is for many attempts.
class Octaves {
 public:
  double of(double scale) {
    if (scale != scale_) {
      scale_ = scale;
      octaves_ = std::log2(scale);
    }
    return octaves_;
  }

 private:
  double scale_ = 1;
  double octaves_ = 0;
};

// The median of the last scales, in quarter octaves; a scaler takes few distinct values, so counting them is cheap.
class ScaleMedian {
 public:
  // The scale of `times` attempts in a row, as its log2.
  void push(double octaves, std::uint64_t times, std::uint64_t limit) {
    const auto bin = static_cast<std::int16_t>(std::lround(4 * octaves));
    const auto added = static_cast<std::uint32_t>(std::min(times, limit));
    if (!order_.empty() && order_.back().first == bin) {
      order_.back().second += added;
    } else {
      order_.emplace_back(bin, added);
    }
    const auto counted = place(bin);
    if (counted != counts_.end() && counted->first == bin) {
      counted->second += added;
    } else {
      counts_.insert(counted, {bin, added});
    }
    size_ += added;
    while (size_ > limit) {
      auto& [oldest, count] = order_.front();
      const auto gone = static_cast<std::uint32_t>(std::min<std::uint64_t>(size_ - limit, count));
      const auto known = place(oldest);
      if ((known->second -= gone) == 0) counts_.erase(known);
      size_ -= gone;
      if ((count -= gone) == 0) order_.pop_front();
    }
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // log2 of the median; only with size() > 0.
  [[nodiscard]] double octaves() const {
    std::uint64_t seen = 0;
    for (const auto& [bin, count] : counts_) {
      seen += count;
      if (seen * 2 >= size_) return bin / 4.0;
    }
    return 0;
  }
  template <class A>
  void persist(A& a) {
    a(order_, counts_, size_);
  }

 private:
  using Count = std::pair<std::int16_t, std::uint32_t>;
  std::vector<Count>::iterator place(std::int16_t bin) {
    return std::find_if(counts_.begin(), counts_.end(), [bin](const Count& count) { return count.first >= bin; });
  }
  std::deque<Count> order_;    // runs of attempts with one scale, oldest first
  std::uint64_t size_ = 0;     // attempts in them
  std::vector<Count> counts_;  // by bin, rising
};

class ScaleCollapse : public PersistedRule<ScaleCollapse> {
 public:
  [[nodiscard]] std::string_view name() const override { return "ScaleCollapse"; }

  void on_step(const ScalerStep& step, const RuleContext& context) override {
    const ScalerTrack& scaler = *step.scaler;
    const auto now = step.scale_after ? step.scale_after : step.scale_before;
    // A scale that nobody moves can't collapse; a non-finite one is another rule's.
    if (!scaler.dynamic || !now || !std::isfinite(*now)) return;
    const Thresholds& t = context.thresholds;
    State& state = states_[scaler.info.name];
    if (step.grew) state.backoffs_below_one = 0;
    if (step.backed_off && *now < 1) ++state.backoffs_below_one;

    const double octaves = *now > 0 ? now_.of(*now) : -1000;
    const bool has_median = state.median.size() >= t.collapse_min_attempts;
    const double median = has_median ? state.median.octaves() : 0;
    const bool below_median = has_median && octaves <= median - t.collapse_octaves;
    const bool halving_below_one = state.backoffs_below_one >= t.collapse_backoffs_below_one;
    const bool absolute = *now < t.collapse_absolute;
    const bool still = (has_median && octaves <= median - t.collapse_octaves + t.collapse_resolve_octaves) ||
                       halving_below_one || octaves < least_.of(t.collapse_absolute) + t.collapse_resolve_octaves;
    if (step.after_calibration && step.scale_before && *step.scale_before > 0 && std::isfinite(*step.scale_before)) {
      state.median.push(before_.of(*step.scale_before), step.passed + 1, std::max(t.collapse_window, t.collapse_min_attempts));
    }
    if (step.backed_off) {
      // What the collapse began with: the first backoff since the last growth.
      if (state.first_attempt == 0) {
        state.first_attempt = step.attempt;
        state.first_step = step.step;
      }
    } else if (step.grew && !state.open) {
      state.first_attempt = 0;
    }
    if (!below_median && !halving_below_one && !absolute) {
      state.clean = still ? 0 : state.clean + 1;
      if (state.open && state.clean >= t.collapse_resolve) {
        state.open = false;
        context.sink.resolve(name(), scaler.info.name);
      }
      return;
    }
    state.open = true;
    state.clean = 0;
    Draft draft;
    draft.rule = name();
    draft.subject = scaler.info.name;
    draft.severity = *now < t.collapse_critical ? Severity::kCritical : Severity::kWarning;
    draft.first_attempt = state.first_attempt != 0 ? state.first_attempt : step.attempt;
    draft.first_step = state.first_attempt != 0 ? state.first_step : step.step;
    draft.attempt = step.attempt;
    draft.step = step.step;
    draft.words = [=, &t, scale = *now, backoffs = state.backoffs_below_one](Finding& finding) {
      const std::string whose = scaler_text(finding.subject);
      finding.evidence = {{"scale", scale, "", absolute ? std::optional(t.collapse_absolute) : std::nullopt}};
      if (below_median) {
        // 0 lies below any number of octaves.
        const std::string below = scale > 0 ? fmt::format("{} octaves below", number_text(median - octaves)) : "far below";
        finding.summary = fmt::format("the scale of {} is {}, {} its median {}", whose, scale_text(scale), below,
                                      scale_text(std::exp2(median)));
        if (scale > 0) {
          finding.evidence.push_back({"octaves_below_median", median - octaves, "octaves", t.collapse_octaves});
        }
      } else if (absolute) {
        finding.summary = fmt::format("the scale of {} is {}, under {}: small gradients are lost", whose, scale_text(scale),
                                      scale_text(scale < t.collapse_critical ? t.collapse_critical : t.collapse_absolute));
      } else {
        finding.summary = fmt::format("the scale of {} is {} and was halved {} times below 1 without growing", whose,
                                      scale_text(scale), backoffs);
      }
      finding.evidence.push_back(
          {"backoffs_below_one", static_cast<double>(backoffs), "", static_cast<double>(t.collapse_backoffs_below_one)});
    };
    draft.blames_skips = true;
    context.sink.raise(std::move(draft));
  }

  template <class A>
  void persist(A& a) {
    a(states_);
  }

 private:
  struct State {
    ScaleMedian median;
    std::uint32_t backoffs_below_one = 0;  // since the last growth
    std::uint32_t clean = 0;
    bool open = false;
    Attempt first_attempt = 0;
    std::int64_t first_step = 0;
    template <class A>
    void persist(A& a) {
      a(median, backoffs_below_one, clean, open, first_attempt, first_step);
    }
  };
  std::map<std::string, State> states_;
  Octaves now_, before_, least_;
};

}  // namespace

std::unique_ptr<Rule> make_scale_collapse() {
  return std::make_unique<ScaleCollapse>();
}

}  // namespace scalewatch::domain
