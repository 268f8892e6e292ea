#include "server/alerting/silences.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "server/alerting/alert_text.h"

namespace scalewatch::alerting {

namespace {

constexpr int kMaxMatchers = 16;
constexpr std::size_t kMaxReason = 1024;

}  // namespace

v1::Silence Silences::checked(const v1::CreateSilenceRequest& request, std::int64_t now_ms) {
  if (request.matchers().empty()) throw std::invalid_argument("a silence needs a matcher, such as run=\"nightly-7\"");
  if (request.matchers_size() > kMaxMatchers) {
    throw std::invalid_argument(fmt::format("a silence has at most {} matchers", kMaxMatchers));
  }
  v1::Silence out;
  bool any = true;
  for (const std::string& text : request.matchers()) {
    const Matcher matcher = Matcher::parse(text);
    any = any && matcher.takes_absent();
    out.add_matchers(matcher.text());
  }
  if (any) throw std::invalid_argument("these matchers take every alert that lacks the names: say which alerts are meant");
  if (request.duration_ms() < 1000 || request.duration_ms() > kMaxMs) {
    throw std::invalid_argument("a silence lasts 1 s to 366 days");
  }
  if (const std::string fault = who_fault(request.who()); !fault.empty()) throw std::invalid_argument(fault);
  if (request.reason().empty() || request.reason().size() > kMaxReason || has_control(request.reason())) {
    throw std::invalid_argument(fmt::format("reason must be 1 to {} bytes without control characters", kMaxReason));
  }
  out.set_created_by(request.who());
  out.set_reason(request.reason());
  out.set_starts_ms(now_ms);
  out.set_ends_ms(now_ms + request.duration_ms());
  return out;
}

bool Silences::Entry::takes(const v1::Alert& alert) const {
  // No matchers would match everything.
  return !matchers.empty() && match(matchers, alert);
}

void Silences::load(const engine::SilenceRow& row, std::int64_t now_ms) {
  v1::Silence silence;
  try {
    if (!silence.ParseFromString(row.silence)) throw std::invalid_argument("its bytes do not parse");
    put(std::move(silence), now_ms);
  } catch (const std::logic_error& error) {
    spdlog::error("silence {} cannot be loaded, so it silences nothing: {}", row.id, error.what());
  }
}

void Silences::put(v1::Silence silence, std::int64_t now_ms) {
  const auto regexes = [](const Matchers& matchers) {
    return static_cast<std::size_t>(
        std::count_if(matchers.begin(), matchers.end(), [](const Matcher& m) { return m.is_regex(); }));
  };
  Entry entry;
  const std::string id = silence.id();
  if (silence.ends_ms() > now_ms) {
    for (const std::string& text : silence.matchers()) entry.matchers.push_back(Matcher::parse(text));
    std::size_t count = regexes(entry.matchers);
    if (count > 0) {
      for (const auto& [other, old] : entries_)
        count += other != id && old.silence.ends_ms() > now_ms ? regexes(old.matchers) : 0;
      if (count > kMaxRegexes) {
        throw std::length_error(fmt::format(
            "silences that have not ended would hold {} regular expressions, the limit is {}: end some, or match with =", count,
            kMaxRegexes));
      }
    }
  }
  entry.silence = std::move(silence);
  entries_[id] = std::move(entry);
}

bool Silences::full(std::int64_t now_ms) const {
  const auto live = std::count_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.second.silence.ends_ms() > now_ms; });
  return static_cast<std::size_t>(live) >= kMax;
}

std::vector<v1::Silence> Silences::bring_back(std::int64_t now_ms) {
  std::vector<v1::Silence> out;
  for (auto& [id, entry] : entries_) {
    v1::Silence& silence = entry.silence;
    const std::int64_t ahead = silence.starts_ms() - now_ms;
    if (ahead <= kClockMs || silence.ends_ms() <= now_ms) continue;
    silence.set_starts_ms(now_ms);
    silence.set_ends_ms(std::max(silence.ends_ms() - ahead, now_ms));
    spdlog::warn("silence {} was made while the clock was {} s ahead: it begins now and ends {}", id, ahead / 1000,
                 rfc3339(silence.ends_ms()));
    out.push_back(silence);
  }
  return out;
}

void Silences::prune(std::int64_t now_ms) {
  for (auto& [id, entry] : entries_) {
    if (entry.silence.ends_ms() <= now_ms) entry.matchers = Matchers();
  }
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.silence.ends_ms() + kKeptMs <= now_ms; });
}

const v1::Silence* Silences::find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.silence;
}

const v1::Silence* Silences::that_silences(const v1::Alert& alert, std::int64_t now_ms) const {
  const v1::Silence* out = nullptr;
  for (const auto& [id, entry] : entries_) {
    if (entry.silence.ends_ms() <= now_ms || !entry.takes(alert)) continue;
    if (out == nullptr || entry.silence.ends_ms() > out->ends_ms()) out = &entry.silence;
  }
  return out;
}

bool Silences::takes(const std::string& id, const v1::Alert& alert) const {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.takes(alert);
}

std::vector<v1::Silence> Silences::list(std::int64_t now_ms, bool ended) const {
  std::vector<v1::Silence> out;
  for (const auto& [id, entry] : entries_) {
    if (ended || entry.silence.ends_ms() > now_ms) out.push_back(entry.silence);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const v1::Silence& a, const v1::Silence& b) { return a.ends_ms() < b.ends_ms(); });
  return out;
}

std::optional<std::int64_t> Silences::next_end(std::int64_t now_ms) const {
  std::optional<std::int64_t> out;
  for (const auto& [id, entry] : entries_) {
    const std::int64_t end = entry.silence.ends_ms();
    if (end > now_ms && (!out || end < *out)) out = end;
  }
  return out;
}

engine::SilenceRow Silences::row(const v1::Silence& silence) {
  return {silence.id(), silence.ends_ms(), silence.SerializeAsString()};
}

}  // namespace scalewatch::alerting
