#include "server/alerting/pager.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "server/alerting/alert_text.h"
#include "server/alerting/sink.h"

namespace scalewatch::alerting {

namespace {

constexpr int kMaxGrouped = 20;
constexpr std::size_t kMaxMissed = 20;
constexpr std::size_t kMaxHeld = 10'000;  // resolved alerts that wait with their group; more are told at once
constexpr std::int64_t kMinuteMs = 60'000;
constexpr std::uint32_t kPagesPerMinute = 10;  // for people, unless the sink says otherwise

const v1::Page* page_of(const v1::Alert& alert, const std::string& sink) {
  const auto found =
      std::find_if(alert.pages().begin(), alert.pages().end(), [&](const v1::Page& p) { return p.sink() == sink; });
  return found == alert.pages().end() ? nullptr : &*found;
}

// Notes that people were told of it as it is now; returns the count of pages.
std::uint32_t told(v1::Alert& alert, const std::string& sink, std::int64_t now_ms) {
  auto* page = const_cast<v1::Page*>(page_of(alert, sink));
  if (page == nullptr) {
    page = alert.add_pages();
    page->set_sink(sink);
  }
  page->set_severity(alert.finding().severity());
  page->set_time_ms(now_ms);
  page->set_pages(page->pages() + 1);
  page->set_due(false);
  return page->pages();
}

// As it was when it fired, of one that has resolved before its page went.
v1::Alert as_fired(const v1::Alert& alert) {
  v1::Alert out = alert;
  if (alert.state() != v1::ALERT_STATE_RESOLVED) return out;
  out.set_state(alert.acknowledged_by().empty() ? v1::ALERT_STATE_FIRING : v1::ALERT_STATE_ACKNOWLEDGED);
  out.set_resolved_ms(0);
  return out;
}

// The one that says most: the worst, then one that blames a tensor, then the oldest.
bool says_more(const v1::Alert& a, const v1::Alert& b) {
  const auto rank = [](const v1::Alert& alert) {
    return std::tuple(-static_cast<int>(alert.finding().severity()), alert.finding().blame().tensor().empty(),
                      alert.finding().first_attempt(), alert.fired_ms());
  };
  return std::tuple(rank(a), std::string_view(a.id())) < std::tuple(rank(b), std::string_view(b.id()));
}

void add_grouped(const v1::Alert& other, v1::Alert& lead) {
  lead.set_grouped_total(lead.grouped_total() + 1);
  if (lead.grouped_size() >= kMaxGrouped) return;
  v1::GroupedAlert& to = *lead.add_grouped();
  to.set_id(other.id());
  to.set_rule(other.finding().rule());
  to.set_severity(other.finding().severity());
  to.set_subject(other.finding().subject());
  to.set_summary(other.finding().summary());
  to.set_run(other.run());
}

}  // namespace

std::string bytes_of(const v1::Alert& alert) {
  std::string out;
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  alert.SerializeToCodedStream(&coded);
  coded.Trim();
  return out;
}

engine::OutboxRow outbox_row(const std::string& sink, const v1::Alert& alert, const std::string& transition,
                             std::int64_t created_ms) {
  return {.key = alert.id() + "/" + transition,
          .sink = sink,
          .alert_id = alert.id(),
          .transition = transition,
          .created_ms = created_ms,
          .alert = bytes_of(alert)};
}

Pager::Lane Pager::make_lane(const SinkConfig& sink) {
  Lane lane;
  lane.sink = sink.name;
  lane.min_severity = sink.min_severity;
  for (const std::string& text : sink.match) lane.match.push_back(Matcher::parse(text));
  const SinkType* type = find_sink_type(sink.type);
  lane.group = sink.group.value_or(type == nullptr || type->group);
  lane.acknowledges = type != nullptr && (type->uses & SinkType::kAcknowledges) != 0;
  lane.per_minute = sink.pages_per_minute.value_or(lane.group ? kPagesPerMinute : type == nullptr ? 0 : type->pages_per_minute);
  return lane;
}

Pager::Pager(const std::vector<SinkConfig>& sinks, const BookOptions& options) : options_(options) {
  for (const SinkConfig& sink : sinks) lanes_.push_back(make_lane(sink));
}

void Pager::reconfigure(const std::vector<SinkConfig>& sinks, const BookOptions& options,
                        std::unordered_map<std::string, RunAlerts>& runs) {
  std::vector<Lane> lanes;
  std::vector<std::size_t> before;  // where each of them was
  for (const SinkConfig& sink : sinks) {
    Lane& lane = lanes.emplace_back(make_lane(sink));
    const auto old = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& each) { return each.sink == lane.sink; });
    before.push_back(static_cast<std::size_t>(old - lanes_.begin()));
    if (old == lanes_.end()) continue;
    lane.paged = std::move(old->paged);
    lane.digest_at = lane.per_minute == 0 ? 0 : old->digest_at;
    lane.missed = std::move(old->missed);
    lane.missed_total = old->missed_total;
  }
  for (auto* const all : {&runs, &held_}) {
    for (auto& [run, alerts] : *all) {
      for (auto& [id, entry] : alerts) {
        std::vector<std::int64_t> waiting;
        for (const std::size_t index : before) waiting.push_back(index < entry.waiting.size() ? entry.waiting[index] : 0);
        entry.waiting = std::move(waiting);
      }
    }
  }
  lanes_ = std::move(lanes);
  options_ = options;
  next_ = 0;
}

void Pager::acknowledged(const AlertEntry& entry, engine::CommitBatch& batch) const {
  for (const Lane& lane : lanes_) {
    if (!lane.acknowledges || page_of(entry.alert, lane.sink) == nullptr) continue;
    batch.outbox.push_back(outbox_row(lane.sink, entry.alert, std::string(kAcknowledged), entry.changed_ms));
  }
}

bool Pager::takes(const Lane& lane, const AlertRules& rules, const v1::Alert& alert) {
  const auto severity = static_cast<domain::Severity>(alert.finding().severity());
  return rules.page && severity >= rules.min_severity && severity >= lane.min_severity && match(lane.match, alert);
}

std::string Pager::owed(const Lane& lane, const AlertRules& rules, const v1::Alert& alert, Now now) const {
  // Holding back is for people: a program is told at once.
  const bool held = alert.state() == v1::ALERT_STATE_PENDING;
  if (held ? is_people(lane) : alert.state() != v1::ALERT_STATE_FIRING && alert.state() != v1::ALERT_STATE_ACKNOWLEDGED) {
    return {};
  }
  if (!takes(lane, rules, alert)) return {};
  const v1::Page* page = page_of(alert, lane.sink);
  if (page == nullptr) return std::string(kFiring);
  if (alert.finding().severity() > page->severity())
    return std::string(kEscalatedPrefix).append(severity_name(alert.finding().severity()));
  if (alert.state() != v1::ALERT_STATE_FIRING) return {};
  // Also where the clock was ahead when it was told: nobody waits for that time to come.
  const bool late = lane.group && rules.repeat_ms > 0 && std::abs(now.wall - page->time_ms()) >= rules.repeat_ms;
  if (page->due() || late) return fmt::format("{}{}", kRepeatedPrefix, page->pages() + 1);
  return {};
}

bool Pager::has_room(Lane& lane, std::int64_t steady) {
  if (lane.per_minute == 0) return true;
  while (!lane.paged.empty() && lane.paged.front() <= steady - kMinuteMs) lane.paged.pop_front();
  if (lane.paged.size() < lane.per_minute) return true;
  if (lane.digest_at == 0) lane.digest_at = lane.paged.back() + kMinuteMs;
  return false;
}

void Pager::changed(AlertEntry& entry, Now now, engine::CommitBatch& batch) {
  entry.waiting.resize(lanes_.size());
  const AlertRules rules = rules_for(options_, entry.alert);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    const std::string transition = owed(lane, rules, entry.alert, now);
    if (transition.empty()) {
      entry.waiting[i] = 0;
      continue;
    }
    if (!is_people(lane)) {
      told(entry.alert, lane.sink, now.wall);
      batch.outbox.push_back(outbox_row(lane.sink, entry.alert, transition, entry.changed_ms));
      continue;
    }
    if (entry.waiting[i] == 0) entry.waiting[i] = now.steady;
    wake_at(lane.digest_at != 0 ? lane.digest_at : lane.group ? entry.waiting[i] + options_.group_wait.count() : now.steady);
  }
}

void Pager::miss(Lane& lane, const v1::Alert& alert) {
  ++lane.missed_total;
  if (lane.missed.size() < kMaxMissed) lane.missed.push_back(alert);
}

void Pager::tell_resolved(const Lane& lane, const std::vector<const v1::Alert*>& alerts, Now now, engine::CommitBatch& batch) {
  const std::size_t pages = lane.group ? std::min<std::size_t>(alerts.size(), 1) : alerts.size();
  for (std::size_t k = 0; k < pages; ++k) {
    v1::Alert lead = *alerts[k];
    if (lane.group) {
      for (std::size_t j = 1; j < alerts.size(); ++j) add_grouped(*alerts[j], lead);
    }
    batch.outbox.push_back(outbox_row(lane.sink, lead, std::string(kResolved), now.wall));
  }
}

void Pager::hold(AlertEntry entry) {
  std::string id = entry.alert.id();
  RunAlerts& run = held_[entry.alert.run_uid()];
  held_total_ += run.insert_or_assign(std::move(id), std::move(entry)).second ? 1 : 0;
}

void Pager::hold_again(AlertEntry entry, Now now) {
  const AlertRules rules = rules_for(options_, entry.alert);
  entry.waiting.assign(lanes_.size(), 0);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = lanes_[i];
    if (lane.group && takes(lane, rules, entry.alert) && page_of(entry.alert, lane.sink) == nullptr) {
      entry.waiting[i] = now.steady;
    }
  }
  hold(std::move(entry));
}

void Pager::unhold(const std::string& run_uid, const std::string& id) {
  const auto run = held_.find(run_uid);
  if (run == held_.end()) return;
  held_total_ -= run->second.erase(id);
  if (run->second.empty()) held_.erase(run);
}

void Pager::forget(const std::string& run_uid) {
  const auto run = held_.find(run_uid);
  if (run == held_.end()) return;
  held_total_ -= run->second.size();
  held_.erase(run);
}

std::vector<AlertEntry> Pager::release() {
  std::vector<AlertEntry> out;
  for (auto run = held_.begin(); run != held_.end();) {
    for (auto entry = run->second.begin(); entry != run->second.end();) {
      if (is_waiting(entry->second)) {
        ++entry;
        continue;
      }
      out.push_back(std::move(entry->second));
      entry = run->second.erase(entry);
      --held_total_;
    }
    run = run->second.empty() ? held_.erase(run) : std::next(run);
  }
  return out;
}

void Pager::resolved(const std::vector<AlertEntry*>& entries, Now now, engine::CommitBatch& batch) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    std::vector<const v1::Alert*> tell;
    for (AlertEntry* entry : entries) {
      v1::Alert& alert = entry->alert;
      const bool waits = i < entry->waiting.size() && entry->waiting[i] != 0;
      if (page_of(alert, lane.sink) != nullptr) {
        if (waits) entry->waiting[i] = 0;  // a rise or a repetition: its end says more
        tell.push_back(&alert);
        continue;
      }
      if (!waits) continue;
      // It went while its page waited: it stays a part of its group's page. On its own it is told as both. Beyond the limit
      // the digest speaks of it.
      if (lane.digest_at == 0 && lane.group && held_total_ + entries.size() <= kMaxHeld) continue;
      entry->waiting[i] = 0;
      if (has_room(lane, now.steady) && lane.digest_at == 0) {
        told(alert, lane.sink, now.wall);
        lane.paged.push_back(now.steady);
        batch.outbox.push_back(outbox_row(lane.sink, as_fired(alert), std::string(kFiring), entry->changed_ms));
        tell.push_back(&alert);
      } else {
        miss(lane, alert);
        wake_at(lane.digest_at);
      }
    }
    std::sort(tell.begin(), tell.end(), [](const v1::Alert* a, const v1::Alert* b) { return says_more(*a, *b); });
    tell_resolved(lane, tell, now, batch);
  }
}

void Pager::page(Lane& lane, std::vector<Due> due, bool digest, Now now, engine::CommitBatch& batch, const Touched& touched) {
  std::sort(due.begin(), due.end(), [](const Due& a, const Due& b) { return says_more(a.entry->alert, b.entry->alert); });
  const std::size_t index = static_cast<std::size_t>(&lane - lanes_.data());
  std::string transition = due.empty() ? std::string() : due.front().transition;
  for (Due& each : due) {
    const std::uint32_t pages = told(each.entry->alert, lane.sink, now.wall);
    each.entry->waiting[index] = 0;
    if (digest && &each == &due.front()) transition = fmt::format("{}{}", kDigestPrefix, pages);
  }
  v1::Alert lead;
  if (due.empty()) {
    std::sort(lane.missed.begin(), lane.missed.end(), says_more);
    lead = lane.missed.front();
    lane.missed.erase(lane.missed.begin());
    --lane.missed_total;
    transition = fmt::format("{}1", kDigestPrefix);
  } else {
    lead = as_fired(due.front().entry->alert);
    for (std::size_t k = 1; k < due.size(); ++k) add_grouped(due[k].entry->alert, lead);
  }
  if (digest) {
    const auto more = lane.missed_total - lane.missed.size();
    for (const v1::Alert& missed : lane.missed) add_grouped(missed, lead);
    lead.set_grouped_total(lead.grouped_total() + static_cast<std::uint32_t>(more));
    lane.missed.clear();
    lane.missed_total = 0;
  }
  batch.outbox.push_back(outbox_row(lane.sink, lead, transition, now.wall));
  // Somebody was on it before its page went.
  if (lane.acknowledges && transition == kFiring && !lead.acknowledged_by().empty()) {
    batch.outbox.push_back(outbox_row(lane.sink, lead, std::string(kAcknowledged), now.wall));
  }
  std::vector<const v1::Alert*> gone;
  for (const Due& each : due) {
    if (each.entry->alert.state() == v1::ALERT_STATE_RESOLVED) gone.push_back(&each.entry->alert);
  }
  tell_resolved(lane, gone, now, batch);
  if (lane.per_minute > 0) lane.paged.push_back(now.steady);
  for (const Due& each : due) {
    touched(*each.entry);
    if (each.entry->alert.state() == v1::ALERT_STATE_RESOLVED) continue;
    const std::int64_t repeat = rules_for(options_, each.entry->alert).repeat_ms;
    if (lane.group && repeat > 0) wake_at(now.steady + repeat);
  }
}

void Pager::turn_lane(std::size_t index, std::unordered_map<std::string, RunAlerts>& runs, Now now, engine::CommitBatch& batch,
                      const Touched& touched) {
  Lane& lane = lanes_[index];
  const bool digest = lane.digest_at != 0;
  if (digest && now.steady < lane.digest_at) return wake_at(lane.digest_at);
  std::vector<Due> all;  // of a digest
  for (auto& [run, alerts] : runs) {
    std::vector<Due> due;
    std::int64_t since = kNever;
    for (auto& [id, entry] : alerts) {
      entry.waiting.resize(lanes_.size());
      const AlertRules rules = rules_for(options_, entry.alert);
      std::string transition = owed(lane, rules, entry.alert, now);
      if (transition.empty()) {
        entry.waiting[index] = 0;
        const v1::Page* page = page_of(entry.alert, lane.sink);
        if (lane.group && page != nullptr && rules.repeat_ms > 0 && entry.alert.state() == v1::ALERT_STATE_FIRING) {
          wake_at(now.steady + std::max<std::int64_t>(page->time_ms() + rules.repeat_ms - now.wall, 1));
        }
        continue;
      }
      if (entry.waiting[index] == 0) entry.waiting[index] = now.steady;
      since = std::min(since, entry.waiting[index]);
      due.push_back({&entry, std::move(transition)});
    }
    const auto held = held_.find(run);
    if (held != held_.end()) {
      for (auto& [id, entry] : held->second) {
        entry.waiting.resize(lanes_.size());
        if (entry.waiting[index] == 0) continue;
        since = std::min(since, entry.waiting[index]);
        due.push_back({&entry, std::string(kFiring)});
      }
    }
    if (due.empty()) continue;
    if (digest) {
      std::move(due.begin(), due.end(), std::back_inserter(all));
      continue;
    }
    if (lane.group && now.steady < since + options_.group_wait.count()) {
      wake_at(since + options_.group_wait.count());
      continue;
    }
    std::vector<std::vector<Due>> pages;
    if (lane.group) {
      pages.push_back(std::move(due));
    } else {
      for (Due& each : due) pages.push_back({std::move(each)});
    }
    for (auto& each : pages) {
      if (!has_room(lane, now.steady)) {
        for (auto& [uid, gone] : held_) {
          for (auto& [id, entry] : gone) {
            if (index < entry.waiting.size() && std::exchange(entry.waiting[index], 0) != 0) miss(lane, entry.alert);
          }
        }
        wake_at(lane.digest_at);
        return;
      }
      page(lane, std::move(each), false, now, batch, touched);
    }
  }
  if (!digest) return;
  lane.digest_at = 0;
  lane.paged.clear();
  if (!all.empty() || lane.missed_total > 0) page(lane, std::move(all), true, now, batch, touched);
}

void Pager::turn(std::unordered_map<std::string, RunAlerts>& runs, Now now, engine::CommitBatch& batch,
                 const Touched& touched) {
  next_ = kNever;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (!is_people(lane)) {
      for (auto& [run, alerts] : runs) {
        for (auto& [id, entry] : alerts) {
          const std::string transition = owed(lane, rules_for(options_, entry.alert), entry.alert, now);
          if (transition.empty()) continue;
          told(entry.alert, lane.sink, now.wall);
          batch.outbox.push_back(outbox_row(lane.sink, entry.alert, transition, now.wall));
          touched(entry);
        }
      }
    } else {
      turn_lane(i, runs, now, batch, touched);
    }
  }
}

}  // namespace scalewatch::alerting
