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

bool speaks_of(const Directive& directive, const TensorInfo& tensor) {
  const auto& roles = directive.roles;
  if (!roles.empty() && std::ranges::find(roles, static_cast<std::int32_t>(tensor.role)) == roles.end()) return false;
  return directive.tensors.empty() ||
         std::ranges::any_of(directive.tensors, [&](const std::string& pattern) { return matches(pattern, tensor.name); });
}

// The most that any of the directives asks for of a tensor; nothing when none speaks of it. One that leaves measuring to the
// trainer's own rule leaves it the rest of that rule too.
std::optional<Cadence> most_of(std::span<const Directive> directives, const TensorInfo& tensor, const Cadence& own) {
  Cadence cadence = own;
  std::uint64_t report = kForever;
  bool found = false;
  for (const Directive& directive : directives) {
    if (!speaks_of(directive, tensor)) continue;
    found = true;
    if (directive.every != 0) {
      cadence.every = std::min(cadence.every, directive.every);
      cadence.start = 1;
      cadence.end = 0;
      cadence.only_found_inf = false;
    }
    report = std::min(report, period(directive.every == 0 ? own.every : directive.every, directive.report_every));
  }
  if (!found || own.every == 0) return std::nullopt;
  const std::uint64_t of_measured = report == kForever ? kNever : std::max<std::uint64_t>(report / cadence.every, 1);
  cadence.report_every = static_cast<std::uint32_t>(std::min<std::uint64_t>(of_measured, kNever));
  return cadence;
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
  if (directives.size() > kMax) directives.resize(kMax);
  for (const Directive& directive : directives) ask_ring(directive);
  changed_ = changed_ || !(directives.empty() && active_.empty());
  active_ = std::move(directives);
}

void Directives::put(Directive directive) {
  ask_ring(directive);
  std::erase_if(active_, [&directive](const Directive& known) { return known.id == directive.id; });
  if (active_.size() >= kMax) active_.erase(active_.begin());
  active_.push_back(std::move(directive));
  changed_ = true;
}

void Directives::ask_ring(const Directive& directive) {
  if (!directive.send_ring || std::ranges::find(ring_sent_, directive.id) != ring_sent_.end()) return;
  if (ring_sent_.size() >= kMax) ring_sent_.erase(ring_sent_.begin());
  ring_sent_.push_back(directive.id);
  ring_ = true;
}

void Directives::expire(std::int64_t now_ms, std::uint64_t attempt) {
  const auto over = [&](const Directive& directive) {
    return (directive.expires_ms != 0 && now_ms + clock_offset_ms_ >= directive.expires_ms) ||
           (directive.until_attempt != 0 && attempt > directive.until_attempt);
  };
  if (std::erase_if(active_, over) > 0) changed_ = true;
}

bool Directives::take_ring_request() {
  return std::exchange(ring_, false);
}

std::unique_ptr<Overrides> Directives::build(std::span<const TensorInfo> table, const Sampling& own) {
  changed_ = false;
  auto made = std::make_unique<Overrides>();
  if (active_.empty()) return made;
  made->of.reserve(table.size());
  for (const TensorInfo& tensor : table) {
    const auto cadence = most_of(active_, tensor, own.cadences()[own.cadence_of(tensor)]);
    std::uint16_t index = 0;
    if (cadence) {
      const auto known = std::ranges::find(made->cadences, *cadence);  // a few: rules times directives at most
      index = static_cast<std::uint16_t>(known - made->cadences.begin() + 1);
      if (known == made->cadences.end()) made->cadences.push_back(*cadence);
    }
    made->of.push_back(index);
  }
  made->due.resize(made->cadences.size());
  return made;
}

}  // namespace scalewatch::client
