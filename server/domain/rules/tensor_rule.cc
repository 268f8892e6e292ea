#include "server/domain/rules/tensor_rule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace scalewatch::domain {
namespace {

void add(GroupFaults& into, Rank rank, const TensorFaults& from) {
  if (into.tensors == 0 || from.since < into.since) {
    into.since = from.since;
    into.since_step = from.since_step;
  }
  // Ranks that hold replicas hold the same tensors, those of a pipeline have others. The names tell them apart.
  std::vector<FaultyTensor> others;
  for (const FaultyTensor& tensor : from.worst) {
    const auto known = std::find_if(into.worst.begin(), into.worst.end(), [&](const FaultyTensor& one) {
      return one.role == tensor.role && one.name == tensor.name;
    });
    if (known == into.worst.end()) {
      others.push_back(tensor);
    } else {
      known->value = std::max(known->value, tensor.value);
    }
  }
  const bool same = others.size() < from.worst.size();
  into.tensors = same ? std::max<std::uint64_t>(into.tensors, from.tensors) : into.tensors + from.tensors;
  into.elements += from.elements;
  into.measured += from.measured;
  into.all_zero = into.all_zero || from.all_zero;
  if (!from.limiting.empty() && (into.limiting.empty() || from.headroom < into.headroom)) {
    into.limiting = from.limiting;
    into.headroom = from.headroom;
  }
  into.ranks.push_back(rank);
  // Each rank has its own in order. Where the elements decide, those of the rank that has more of them come first.
  const bool before = from.rule == TensorRule::kGradientUnderflow && from.elements > into.most;
  into.most = std::max(into.most, from.elements);
  into.worst.insert(before ? into.worst.begin() : into.worst.end(), others.begin(), others.end());
  if (from.rule != TensorRule::kGradientUnderflow) {
    std::stable_sort(into.worst.begin(), into.worst.end(),
                     [](const FaultyTensor& a, const FaultyTensor& b) { return a.value > b.value; });
  }
  if (into.worst.size() > TensorFaults::kMaxWorst) into.worst.resize(TensorFaults::kMaxWorst);
}

// A rank's group is that of its scaler's name.
std::string subject_of(const RankInfo& rank, const TensorFaults& faults, const RunModel& run) {
  if (!faults.scaler || *faults.scaler >= rank.scaler_tracks.size()) return {};
  const std::uint32_t track = rank.scaler_tracks[*faults.scaler];
  return track < run.scalers.size() ? run.scalers[track].info.name : std::string();
}

}  // namespace

std::string GroupFaults::text() const {
  if (worst.empty()) return fmt::format("{} tensors", tensors);
  const std::string first = fmt::format("the {} {}", role_text(worst.front().role), worst.front().name);
  return tensors > 1 ? fmt::format("{} and {} more", first, tensors - 1) : first;
}

double percent(double share) {
  return std::round(share * 1000) / 10;
}

std::string octaves_text(double octaves) {
  return fmt::format("{:.1f}", octaves);
}

void JoinedTensorRule::on_attempt(const ClosedAttempt& attempt, const RuleContext& context) {
  if (open_.empty() && std::all_of(context.run.ranks.begin(), context.run.ranks.end(),
                                   [](const auto& rank) { return rank.second.tensor_faults.empty(); })) {
    return;
  }
  std::map<std::string, GroupFaults> groups;
  std::size_t live = 0;
  for (const auto& [number, rank] : context.run.ranks) {
    // A rank that said goodbye before the others told of the attempt was there all the same.
    if (!rank.live() && !std::binary_search(attempt.joined.ranks.begin(), attempt.joined.ranks.end(), number)) continue;
    ++live;
    for (const TensorFaults& faults : rank.tensor_faults) {
      if (faults.rule == rule_) add(groups[subject_of(rank, faults, context.run)], number, faults);
    }
  }
  for (const std::string& subject : open_) {
    if (!groups.contains(subject)) context.sink.resolve(name(), subject);
  }
  open_.clear();
  for (auto& [subject, faults] : groups) {
    open_.push_back(subject);
    Draft draft;
    draft.rule = name();
    draft.subject = subject;
    draft.first_attempt = faults.since;
    draft.first_step = faults.since_step;
    draft.attempt = std::max(attempt.attempt(), faults.since);
    draft.step = attempt.step();
    if (faults.ranks.size() < live) draft.ranks = faults.ranks;
    if (!faults.worst.empty()) {
      Blame blame;
      blame.attempt = draft.attempt;
      blame.step = draft.step;
      blame.tensor = faults.worst.front().name;
      blame.role = faults.worst.front().role;
      if (!context.run.from_log) blame.ranks = faults.ranks;
      draft.blame = std::move(blame);
    }
    describe(faults, context, draft);
    draft.evidence.push_back({"tensors", static_cast<double>(faults.tensors), "tensors", {}});
    context.sink.raise(std::move(draft));
  }
}

}  // namespace scalewatch::domain
