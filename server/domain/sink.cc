#include "server/domain/sink.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/domain/advice/advice.h"

namespace scalewatch::domain {
namespace {

bool same_blame(const std::optional<Blame>& a, const Blame& b) {
  return a &&
         std::tie(a->tensor, a->role, a->where, a->rank_of_origin) == std::tie(b.tensor, b.role, b.where, b.rank_of_origin);
}

// A subject takes part in the id, where '/' separates.
std::string id_part(const std::string& subject) {
  if (subject.empty()) return "run";
  std::string part = subject;
  std::replace(part.begin(), part.end(), '/', '_');
  return part;
}

}  // namespace

std::string Sink::new_id(const Draft& draft) {
  Episode& episode = episodes_[{std::string(draft.rule), draft.subject}];
  episode.repeats = episode.first_attempt == draft.first_attempt ? episode.repeats + 1 : 1;
  episode.first_attempt = draft.first_attempt;
  std::string id = std::string(draft.rule) + "/" + id_part(draft.subject) + "/" + std::to_string(run_.segment) + "." +
                   std::to_string(draft.first_attempt);
  if (episode.repeats > 1) id += std::string(".") + std::to_string(episode.repeats);
  return id;
}

void Sink::tell(Entry& entry, FindingEvent::Change change, const std::string& reason) {
  entry.say();
  if (std::exchange(entry.advice_is_old, false)) entry.finding.advice = advise(entry.finding, run_);
  entry.told = entry.finding.last_attempt;
  events_.push_back({change, entry.finding, reason});
}

bool Sink::is_off(std::string_view rule) const {
  return std::find(thresholds_.off.begin(), thresholds_.off.end(), rule) != thresholds_.off.end();
}

void Sink::raise(Draft draft) {
  if (is_off(draft.rule)) return;
  // Copied into the finding's own memory, for it is raised at every attempt.
  const Blame* blame = draft.blame ? &*draft.blame : nullptr;
  if (draft.blames_skips && blame == nullptr) {
    if (const PastBlame* usual = run_.usual_blame(draft.attempt)) blame = &usual->blame;
  }
  const auto found = open_.find(View(draft.rule, draft.subject));
  if (found == open_.end()) {
    if (open_.size() >= kMaxOpen) return;
    Key key{std::string(draft.rule), draft.subject};
    Entry entry;
    entry.blames_skips = draft.blames_skips;
    Finding& finding = entry.finding;
    finding.id = new_id(draft);
    finding.rule = draft.rule;
    finding.severity = draft.severity;
    finding.subject = std::move(draft.subject);
    finding.segment = run_.segment;
    finding.first_attempt = draft.first_attempt;
    finding.first_step = draft.first_step;
    finding.last_attempt = draft.attempt;
    finding.last_step = draft.step;
    finding.ranks = std::move(draft.ranks);
    finding.summary = std::move(draft.summary);
    finding.evidence = std::move(draft.evidence);
    if (blame != nullptr) finding.blame = *blame;
    finding.first_time = finding.last_time = now_;
    if (draft.words) draft.words.say(finding);
    finding.advice = advise(finding, run_);
    rules_open_ |= bit_of(draft.rule);
    tell(open_.emplace(std::move(key), std::move(entry)).first->second, FindingEvent::Change::kOpened);
    return;
  }

  Entry& entry = found->second;
  Finding& finding = entry.finding;
  const bool escalated = draft.severity > finding.severity;
  const bool blame_changed = blame != nullptr && !same_blame(finding.blame, *blame);
  const bool ranks_changed = finding.ranks != draft.ranks;
  finding.severity = std::max(finding.severity, draft.severity);
  if (draft.attempt >= finding.last_attempt) {
    finding.last_attempt = draft.attempt;
    finding.last_step = draft.step;
  }
  finding.ranks = std::move(draft.ranks);
  entry.words = draft.words;
  if (!draft.words) {
    finding.summary = std::move(draft.summary);
    finding.evidence = std::move(draft.evidence);
  }
  if (blame != nullptr) finding.blame = *blame;
  finding.last_time = now_;
  entry.advice_is_old = true;
  const bool due = finding.last_attempt >= entry.told + thresholds_.update_every;
  if (!escalated && !blame_changed && !ranks_changed && !due) return;
  tell(entry, escalated ? FindingEvent::Change::kEscalated : FindingEvent::Change::kUpdated);
}

void Sink::resolve(std::string_view rule, const std::string& subject, const std::string& reason) {
  const auto found = open_.find(View(rule, subject));
  if (found == open_.end()) return;
  found->second.finding.open = false;
  found->second.finding.last_time = now_;
  tell(found->second, FindingEvent::Change::kResolved, reason);
  open_.erase(found);
  note_open();
}

void Sink::resolve_all(const std::string& reason) {
  for (auto& [key, entry] : open_) {
    entry.finding.open = false;
    entry.finding.last_time = now_;
    tell(entry, FindingEvent::Change::kResolved, reason);
  }
  open_.clear();
  rules_open_ = 0;
}

void Sink::say_all() {
  for (auto& [key, entry] : open_) entry.say();
}

void Sink::resolve_off() {
  std::vector<Key> gone;
  for (const auto& [key, entry] : open_) {
    if (is_off(key.first)) gone.push_back(key);
  }
  for (const auto& [rule, subject] : gone) resolve(rule, subject, "the rule was switched off");
}

const Finding* Sink::find_open(std::string_view rule, const std::string& subject) const {
  const auto found = open_.find(View(rule, subject));
  return found == open_.end() ? nullptr : &found->second.finding;
}

void Sink::acknowledge(const std::string& id, const std::string& who, const std::string& comment) {
  for (auto& [key, entry] : open_) {
    if (entry.finding.id != id) continue;
    entry.finding.acknowledged_by = who;
    entry.finding.acknowledge_comment = comment;
    entry.finding.acknowledged_time = now_;
    tell(entry, FindingEvent::Change::kAcknowledged);
    return;
  }
}

void Sink::refresh_blame() {
  const PastBlame* usual = run_.blames.empty() ? nullptr : run_.usual_blame(run_.blames.back().attempt);
  if (usual == nullptr) return;
  for (auto& [key, entry] : open_) {
    if (!entry.blames_skips) continue;
    const bool changed = !same_blame(entry.finding.blame, usual->blame);
    entry.finding.blame = usual->blame;
    if (!changed) continue;
    entry.advice_is_old = true;
    tell(entry, FindingEvent::Change::kUpdated);
  }
}

void Sink::refine_blame(Attempt attempt, const Blame& blame) {
  for (auto& [key, entry] : open_) {
    Finding& finding = entry.finding;
    // What windows of statistics found went wrong at no single attempt.
    if (!finding.blame || finding.blame->where.empty() || entry.blames_skips) continue;
    if (finding.blame->attempt != attempt) continue;
    entry.say();  // they are of the blame as it was
    const bool same = same_blame(finding.blame, blame);
    finding.blame = blame;
    if (same) continue;  // more ranks or elements of it: not worth an event each
    finding.advice = advise(finding, run_);
    tell(entry, FindingEvent::Change::kUpdated);
  }
}

std::vector<Finding> Sink::open() const {
  std::vector<Finding> findings;
  findings.reserve(open_.size());
  for (const auto& [key, entry] : open_) {
    Finding& finding = findings.emplace_back(entry.finding);
    if (entry.words) entry.words.say(finding);
    if (entry.advice_is_old) finding.advice = advise(finding, run_);
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(b.severity, a.first_time, a.first_attempt) < std::tuple(a.severity, b.first_time, b.first_attempt);
  });
  return findings;
}

}  // namespace scalewatch::domain
