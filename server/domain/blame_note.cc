#include "server/domain/blame_note.h"

#include <algorithm>
#include <vector>

#include "server/domain/found_inf.h"
#include "server/domain/text.h"

namespace scalewatch::domain {
namespace {

template <class Predicate>
bool any_report(const JoinedAttempt& attempt, Predicate predicate) {
  return std::any_of(attempt.reports.begin(), attempt.reports.end(), predicate);
}

// Where it may have begun and nobody looked.
std::vector<std::string> unseen_before(const Blame& blame, const JoinedAttempt& attempt) {
  std::vector<std::string> unseen;
  const bool backward = blame.where == "backward";
  if (blame.where != "forward" && !backward && blame.where != "loss") return unseen;
  const bool activations = any_report(attempt, [](const RankReport& report) { return report.observed_activations; });
  const bool loss = any_report(attempt, [](const RankReport& report) { return report.loss.has_value(); });
  if (!activations) unseen.emplace_back("activations");
  if (backward && blame.role != Role::kActivationGradient &&
      !any_report(attempt, [](const RankReport& report) { return report.observed_activation_gradients; })) {
    unseen.emplace_back("activation gradients");
  }
  if (backward && !loss) unseen.emplace_back("the loss");
  if (backward && activations && loss) return unseen;  // poisoned weights and bad data would have shown in them
  if (!any_report(attempt, [](const RankReport& report) { return report.observed_parameters; })) {
    unseen.emplace_back("parameters");
  }
  const bool not_looked = any_report(attempt, [&](const RankReport& report) {
    return !report.input_non_finite && std::find(blame.ranks.begin(), blame.ranks.end(), report.rank) != blame.ranks.end();
  });
  if (not_looked) unseen.emplace_back("whether the input was finite");
  return unseen;
}

std::string list(const std::vector<std::string>& things) {
  std::string text;
  for (std::size_t i = 0; i < things.size(); ++i) {
    if (i > 0) text += i + 1 == things.size() ? " and " : ", ";
    text += things[i];
  }
  return text;
}

// Some ranks found something before the reduction and some did not: it is known who did.
bool locals_differ(const JoinedAttempt& attempt) {
  const auto known = [](const RankReport& report) { return local_found_inf_known(report) && report.whole_gradients; };
  return std::all_of(attempt.reports.begin(), attempt.reports.end(), known) &&
         !std::all_of(attempt.reports.begin(), attempt.reports.end(), local_found_inf);
}

}  // namespace

std::string blame_note(const Blame& blame, const BlameEvidence& evidence) {
  const JoinedAttempt& attempt = evidence.attempt;
  if (evidence.run.from_log) {
    if (!blame.tensor.empty() && blame.tensor != kUnnamed) return {};
    return "the log names no tensor: hooks that look for NaN and Inf in outputs and gradients name it, or Scalewatch's client "
           "in the trainer";
  }
  if (blame.where == "weights") {
    if (!evidence.gradients_known) return "send gradient records to know whether the update or the optimizer poisoned them";
    if (!evidence.run.poisoned.contains({blame.role, blame.tensor})) {
      return "send parameters every attempt to know at which one they went non-finite";
    }
    return {};
  }
  std::vector<std::string> sentences;
  if (evidence.run.suspect_since != 0 && !evidence.state_seen_bad) {
    sentences.push_back(
        std::string("attempt ") + std::to_string(evidence.run.suspect_since) +
        " may have put non-finite gradients into the weights: send parameters to know whether they are poisoned");
  }
  if (const std::string unseen = list(unseen_before(blame, attempt)); !unseen.empty()) {
    sentences.push_back("send " + unseen + " to know whether it began there");
  }
  const bool gradient = blame.where == "backward" && (blame.tensor.empty() || blame.role == Role::kGradient);
  if (blame.tensor.empty() && (gradient || blame.where == "reduction")) {
    sentences.emplace_back("send gradient records to name the tensor");
  }
  if (gradient && attempt.reports.size() > 1 && !blame.rank_of_origin && !locals_differ(attempt)) {
    sentences.emplace_back("send each rank's found_inf from before the reduction to tell its overflow from a rank's own");
  }
  if (gradient && !attempt.missing.empty()) {
    sentences.push_back("it may have begun on " + ranks_text(attempt.missing) + ", whose reports are missing");
  }
  if (evidence.doubt != nullptr) {
    const bool blamed = evidence.doubt->name == blame.tensor && blame.role == evidence.doubt->role;
    sentences.push_back(blamed ? std::string("it held -Inf alone: if that is a mask, the loss went bad after it")
                               : evidence.doubt->name + " held -Inf: if that is no mask, it began there");
  }
  std::string note;
  for (const std::string& sentence : sentences) note += (note.empty() ? "" : "; ") + sentence;
  return note;
}

}  // namespace scalewatch::domain
