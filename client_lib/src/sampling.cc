#include "client_lib/src/sampling.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace scalewatch::client {
namespace {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

// Attempts between two full records.
std::uint64_t period(std::uint32_t every, std::uint32_t report_every) {
  return report_every == kNever ? kForever : std::uint64_t{every} * std::max(report_every, 1U);
}

}  // namespace

Due due(const Cadence& cadence, std::uint64_t attempt) noexcept {
  const std::uint64_t start = std::max<std::uint64_t>(cadence.start, 1);
  if (cadence.every == 0 || attempt < start || (cadence.end != 0 && attempt > cadence.end)) return {false, SendMode::kIfBad};
  const std::uint64_t since = attempt - start;
  if (since % cadence.every != 0) return {false, SendMode::kIfBad};
  const std::uint64_t measurement = since / cadence.every;
  if (cadence.report_every == kNever || measurement % std::max(cadence.report_every, 1U) != 0) return {true, SendMode::kIfBad};
  return {true, cadence.only_found_inf ? SendMode::kIfFoundInf : SendMode::kAlways};
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // the last one, and where its match may begin again
  std::size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

void Sampling::add(Rule rule) {
  cadences_.push_back(rule.cadence);
  rules_.push_back(std::move(rule));
}

std::uint16_t Sampling::cadence_of(const TensorInfo& tensor) const noexcept {
  for (std::size_t i = rules_.size(); i-- > 0;) {
    const Rule& rule = rules_[i];
    if (rule.role != 0 && rule.role != static_cast<std::int32_t>(tensor.role)) continue;
    if (!rule.include.empty() && !matches(rule.include, tensor.name)) continue;
    if (!rule.exclude.empty() && matches(rule.exclude, tensor.name)) continue;
    return static_cast<std::uint16_t>(i + 1);
  }
  return 0;
}

void Directives::replace(std::vector<Directive> directives, std::int64_t clock_offset_ms) {
  clock_offset_ms_ = clock_offset_ms;
  changed_ = changed_ || !(directives.empty() && active_.empty());
  active_.clear();
  for (Directive& directive : directives) add(std::move(directive));
}

void Directives::put(Directive directive) {
  std::erase_if(active_, [&directive](const Active& known) { return known.said.id == directive.id; });
  if (active_.size() >= kMax) active_.erase(active_.begin());
  add(std::move(directive));
  changed_ = true;
}

void Directives::add(Directive directive) {
  ask_ring(directive);
  if (active_.size() >= kMax) return;
  std::size_t stars = 0;
  for (const Active& known : active_) stars += known.stars.size();
  Active made;
  for (std::string& pattern : directive.tensors) {
    if (pattern.find('*') == std::string::npos) {
      made.names.insert(std::move(pattern));
    } else if (stars < kMaxStars) {
      made.stars.push_back(std::move(pattern));
      ++stars;
    }
  }
  made.said = std::move(directive);
  active_.push_back(std::move(made));
}

bool Directives::Active::speaks_of(const TensorInfo& tensor) const {
  if (!said.roles.empty() && std::ranges::find(said.roles, static_cast<std::int32_t>(tensor.role)) == said.roles.end())
    return false;
  return said.tensors.empty() || names.contains(tensor.name) ||
         std::ranges::any_of(stars, [&tensor](const std::string& pattern) { return matches(pattern, tensor.name); });
}

// The most that any of the directives asks for of a tensor; nothing when none speaks of it. One that leaves measuring to the
// trainer's own rule leaves it the rest of that rule too.
std::optional<Cadence> Directives::most_of(const TensorInfo& tensor, const Cadence& own) const {
  Cadence cadence = own;
  std::uint64_t report = kForever;
  bool found = false;
  for (const Active& directive : active_) {
    if (!directive.speaks_of(tensor)) continue;
    found = true;
    const std::uint32_t every = directive.said.every;
    if (every != 0) {
      cadence.every = std::min(cadence.every, every);
      cadence.start = 1;
      cadence.end = 0;
      cadence.only_found_inf = false;
    }
    report = std::min(report, period(every == 0 ? own.every : every, directive.said.report_every));
  }
  if (!found || own.every == 0) return std::nullopt;
  const std::uint64_t of_measured = report == kForever ? kNever : std::max<std::uint64_t>(report / cadence.every, 1);
  cadence.report_every = static_cast<std::uint32_t>(std::min<std::uint64_t>(of_measured, kNever));
  return cadence;
}

void Directives::ask_ring(const Directive& directive) {
  if (!directive.send_ring || std::ranges::find(ring_sent_, directive.id) != ring_sent_.end()) return;
  if (ring_sent_.size() >= kMax) ring_sent_.erase(ring_sent_.begin());
  ring_sent_.push_back(directive.id);
  ring_ = true;
}

void Directives::expire(std::int64_t now_ms, std::uint64_t attempt) {
  const auto over = [&](const Active& directive) {
    return (directive.said.expires_ms != 0 && now_ms + clock_offset_ms_ >= directive.said.expires_ms) ||
           (directive.said.until_attempt != 0 && attempt > directive.said.until_attempt);
  };
  if (std::erase_if(active_, over) > 0) changed_ = true;
}

bool Directives::take_ring_request() {
  return std::exchange(ring_, false);
}

std::unique_ptr<Overrides> Directives::build(std::span<const TensorInfo> table, const Sampling& own) {
  if (std::exchange(changed_, false)) built_ = {};
  if (active_.empty()) return std::make_unique<Overrides>();
  // What was said of the tensors that were there holds on.
  for (const TensorInfo& tensor : table.subspan(std::min(built_.of.size(), table.size()))) {
    const auto cadence = most_of(tensor, own.cadences()[own.cadence_of(tensor)]);
    std::uint16_t index = 0;
    if (cadence) {
      const auto known = std::ranges::find(built_.cadences, *cadence);  // a few: rules times directives at most
      index = static_cast<std::uint16_t>(known - built_.cadences.begin() + 1);
      if (known == built_.cadences.end()) built_.cadences.push_back(*cadence);
    }
    built_.of.push_back(index);
  }
  built_.due.resize(built_.cadences.size());
  return std::make_unique<Overrides>(built_);
}

}  // namespace scalewatch::client
