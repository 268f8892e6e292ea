#include <fmt/core.h>

#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

// Steps fail though the scale can't be the reason: what the scale does not reach, where nothing names it.
std::optional<Advice> advise_beyond_scale(const AdviceContext& context) {
  if (!context.tensor().empty() || context.where() == "input") return std::nullopt;
  constexpr Attempt kAtOnce = 3;
  const bool lost_at_once = context.rule("NonFiniteLoss") && context.scaler() != nullptr &&
                            context.finding.first_attempt <= kAtOnce &&
                            context.finding.first_step <= static_cast<std::int64_t>(kAtOnce);
  if (lost_at_once || (context.rule("NeverApplied") && context.where() != "loss")) {
    // A log may begin anywhere.
    const std::string_view none = context.run.from_log ? "no update was seen to be made" : "no update was ever made";
    return Advice{
        "look_at_first_step",
        fmt::format("{}: look at the first forward pass in fp32. Hold the first loss against ln(number of classes), check new "
                    "or resized embeddings and labels outside of the vocabulary, and compute the loss, layer norm and softmax "
                    "in fp32",
                    lost_at_once ? "the loss was lost in the first steps, with the weights nearly as they were loaded"
                                 : fmt::format("{}, so the weights are as they were loaded", none)),
        lost_at_once ? 0.7 : 0.65};
  }
  if (context.where() == "loss") return std::nullopt;
  if (!context.rule_is_one_of("ScaleCollapse", "ScaleVanished", "ScaleAtMinimum", "ConsecutiveSkips", "FrequentSkippedSteps")) {
    return std::nullopt;
  }
  if (context.finding.severity < Severity::kWarning) return std::nullopt;
  const auto scale = context.evidence("scale");
  if (!scale || *scale >= 1) {
    return Advice{
        "name_the_layer",
        "find the layer whose output or gradient is NaN or Inf first (hooks that check every module, or anomaly mode for "
        "one step) and compute it in fp32: sums, exps, softmax and losses come first; with several losses or optimizers "
        "give each its own scaler",
        0.42};
  }
  return Advice{
      "scale_below_one",
      fmt::format("stop lowering the scale, at {} it is not the reason: either something is NaN or Inf whatever the scale "
                  "(find the first layer with hooks or anomaly mode, compute the loss, softmax and logs in fp32, monitor "
                  "the raw loss of every step), or the loss is a sum over many tokens or pixels: divide it by their "
                  "number before backward",
                  scale_text(*scale)),
      0.6};
}

}  // namespace scalewatch::domain
