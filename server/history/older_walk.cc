#include "server/history/older_walk.h"

#include <algorithm>

#include "server/history/whole_attempts.h"

namespace scalewatch::history {

namespace {

constexpr std::size_t kFewPlaces = 32;
constexpr std::size_t kMostPlaces = 65'536;
constexpr std::size_t kMostReports = 4096;
constexpr std::size_t kMostScalers = 65'536;
constexpr std::size_t kMostPayloads = 1024;
constexpr std::size_t kMostTensorSets = 64;
constexpr std::size_t kMoreInputs = 1024;
constexpr std::size_t kMostInputs = 16'384;

std::size_t bytes_of(const OlderReport& report) {
  return sizeof report + report.rest.size();
}
template <class Row>
std::size_t bytes_of(const Row& row) {
  return sizeof row;
}

template <class Row>
auto from_attempt(const std::vector<Row>& rows, std::uint64_t attempt) {
  return std::lower_bound(rows.begin(), rows.end(), attempt,
                          [](const Row& row, std::uint64_t wanted) { return row.attempt < wanted; });
}

// Those of some attempts, no more than `limit`.
template <class Row>
std::vector<Row> part_of(const std::vector<Row>& rows, const Interval& attempts, std::size_t limit) {
  const auto first = from_attempt(rows, attempts.first);
  const auto last = attempts.last == UINT64_MAX ? rows.end() : from_attempt(rows, attempts.last + 1);
  return {first, first + std::min<std::ptrdiff_t>(last - first, static_cast<std::ptrdiff_t>(limit))};
}

bool holds(const std::optional<Interval>& attempts, const Interval& all_of) {
  return attempts && attempts->first <= all_of.first && all_of.last <= attempts->last;
}

// Keeps the first attempts, and returns how many.
std::size_t keep_attempts(std::vector<OlderPlace>& places, std::size_t most) {
  std::size_t count = 0;
  for (auto place = places.begin(); place != places.end(); ++place) {
    if (place != places.begin() && place->attempt == (place - 1)->attempt) continue;
    if (count == most) {
      places.erase(place, places.end());
      break;
    }
    ++count;
  }
  return count;
}

}  // namespace

bool OlderWalk::leads_to(const Of& of, std::uint64_t attempt, bool again) const {
  if (of != of_ || !window_) return false;
  if (again) return again_ && attempt == position_;
  return attempt > position_ && attempt - 1 <= window_->attempts.last;
}

void OlderWalk::answered(bool again) {
  again_ = again;
  if (!window_ || again || (!window_->places.empty() && position_ < window_->places.back().attempt)) return;
  // All of it was told.
  window_ = Window{window_->attempts, window_->read_at, {}, {}, {}, 0, {}, {}, {}};
}

std::size_t OlderWalk::bytes() const {
  if (!window_) return 0;
  std::size_t bytes = window_->places.size() * sizeof(OlderPlace) + window_->reports.bytes + window_->payload_bytes +
                      window_->scalers.bytes + window_->inputs.bytes;
  for (const auto& [tensors, held] : window_->records) bytes += held.bytes;
  return bytes;
}

bool OlderWalk::is_mine(const OlderRange& range) const {
  return range.run_uid == of_.run_uid && range.segment == of_.segment && range.within.empty() && range.each.empty() &&
         !range.with_records;
}

template <class Ask>
auto OlderWalk::timed(const Ask& ask) {
  const auto begin = Clock::now();
  auto rows = ask();
  measure_.spent += Clock::now() - begin;
  return rows;
}

// How many attempts to read at once from this one on.
std::size_t OlderWalk::width_from(std::uint64_t attempt) const {
  constexpr int kGrow = 4;
  if (!window_ || measure_.attempts == 0) return 1;
  if (attempt <= window_->attempts.last) {
    // So few were asked for while what was read was new.
    std::vector<OlderPlace> told(window_->places.begin(), from_attempt(window_->places, attempt));
    return std::max<std::size_t>(1, 2 * keep_attempts(told, limits_.attempts));
  }
  std::size_t width = measure_.attempts;
  const bool cheaper = 2 * measure_.spent * before_.attempts < before_.spent * measure_.attempts;  // each, being more
  if (measure_.spent > 2 * kGrow * limits_.patience) {
    width /= kGrow;
  } else if (measure_.spent < limits_.patience || cheaper) {
    width *= kGrow;
  }
  width = std::min(width, limits_.bytes / (measure_.report_bytes / measure_.attempts + 1));
  return std::clamp<std::size_t>(width, 1, limits_.attempts);
}

void OlderWalk::open(const OlderRange& rest, std::size_t limit) {
  const std::size_t width = width_from(rest.first);
  limit = std::max(limit, kFewPlaces);
  if (width > 1) limit = std::max(limit, std::min(width * (measure_.places / measure_.attempts + 1), kMostPlaces));
  before_ = std::exchange(measure_, {});
  bool cut = false;
  auto places = whole_attempts<OlderPlace>(limit, [&](std::size_t most) {
    auto rows = timed([&] { return history_.places(rest, most); });
    cut = rows.size() == most;
    return rows;
  });
  const std::size_t all = places.size();
  measure_.attempts = keep_attempts(places, width);
  measure_.places = places.size();
  cut = cut || places.size() < all;
  window_ =
      Window{{rest.first, cut ? places.back().attempt : rest.last}, Clock::now(), std::move(places), {}, {}, 0, {}, {}, {}};
}

std::vector<OlderPlace> OlderWalk::places(const OlderRange& range, std::size_t limit) {
  if (!is_mine(range) || range.rank) return history_.places(range, limit);
  const auto known = [&] { return window_ && holds(window_->attempts, {range.first, range.first}); };
  if (range.first == range.last) {
    return known() ? part_of(window_->places, {range.first, range.last}, limit) : history_.places(range, limit);
  }
  position_ = range.first;
  if (!known() || Clock::now() - window_->read_at >= limits_.fresh) open(range, limit);
  for (OlderRange rest = range;; open(rest, limit)) {
    auto found = part_of(window_->places, {rest.first, rest.last}, limit);
    if (!found.empty()) position_ = found.front().attempt;
    if (!found.empty() || window_->attempts.last >= range.last) return found;
    rest.first = window_->attempts.last + 1;
  }
}

template <class Row, class Ask>
std::vector<Row> OlderWalk::ask_ahead(Held<Row>& held, const OlderRange& range, std::size_t limit, std::size_t most,
                                      const Ask& ask) {
  const Interval attempts{range.first, range.last};
  if (holds(held.attempts, attempts)) return part_of(held.rows, attempts, limit);
  OlderRange ahead = range;
  if (!window_->places.empty()) ahead.last = std::max(range.last, window_->places.back().attempt);
  if (ahead.last == range.last) most = limit;
  auto rows = timed([&] { return ask(ahead, most); });
  if (rows.size() >= most) {
    const std::uint64_t cut = rows.back().attempt;
    if (ahead.last == range.last) return rows;
    if (cut <= range.last) return timed([&] { return ask(range, limit); });
    std::erase_if(rows, [&](const Row& row) { return row.attempt == cut; });
    ahead.last = cut - 1;
  }
  held = {Interval{range.first, ahead.last}, std::move(rows), 0};
  for (const Row& row : held.rows) held.bytes += bytes_of(row);
  return part_of(held.rows, attempts, limit);
}

std::vector<OlderReport> OlderWalk::reports(const OlderRange& range, std::size_t limit) {
  const auto ask = [&](const OlderRange& part, std::size_t most) { return history_.reports(part, most); };
  if (!is_mine(range) || range.rank != of_.rank || !window_ || !holds(window_->attempts, {range.first, range.last}))
    return ask(range, limit);
  auto rows = ask_ahead(window_->reports, range, limit, kMostReports, ask);
  measure_.report_bytes = window_->reports.bytes;
  return rows;
}

std::vector<OlderRecord> OlderWalk::records(const OlderRange& range, const Tensors& tensors, std::size_t limit) {
  const auto ask = [&](const OlderRange& part, std::size_t most) { return history_.records(part, tensors, most); };
  if (!is_mine(range) || range.rank != of_.rank || !window_ || !holds(window_->attempts, {range.first, range.last}))
    return ask(range, limit);
  auto& sets = window_->records;  // pages of an attempt have one each
  if (sets.size() > kMostTensorSets) sets.clear();
  auto& held = sets[tensors];
  return ask_ahead(held, range, limit, limits_.bytes / sizeof(OlderRecord) / sets.size(), ask);
}

std::vector<OlderScaler> OlderWalk::scalers(const OlderRange& range, std::optional<std::uint32_t> scaler, std::size_t limit) {
  const auto ask = [&](const OlderRange& part, std::size_t most) { return history_.scalers(part, scaler, most); };
  if (!is_mine(range) || range.rank != of_.rank || scaler || !window_ || !holds(window_->attempts, {range.first, range.last}))
    return ask(range, limit);
  return ask_ahead(window_->scalers, range, limit, kMostScalers, ask);
}

void OlderWalk::read_payloads(const std::string& run_uid, const std::vector<OlderReport>& reports) {
  const auto asked = [](const OlderReport& report) {
    OlderReport out;
    out.key = report.key;
    out.pos = report.pos;
    return out;
  };
  std::vector<OlderReport> ahead;
  std::size_t bytes = 0;
  for (const auto& report : reports) {
    ahead.push_back(asked(report));
    bytes += likely_bytes(report);
  }
  const auto& rows = window_->reports.rows;
  for (auto next = from_attempt(rows, reports.back().attempt + 1); next != rows.end() && ahead.size() < kMostPayloads; ++next) {
    bytes += likely_bytes(*next);
    if (!next->records || bytes > limits_.bytes) break;
    ahead.push_back(asked(*next));
  }
  auto found = timed([&] { return history_.payloads(run_uid, ahead); });
  window_->payloads.clear();
  window_->payload_bytes = 0;
  for (const auto& report : ahead) {
    const auto payload = found.find(report.key);
    auto& held = window_->payloads[report.key];
    if (payload == found.end()) continue;
    held = std::move(payload->second);
    window_->payload_bytes += held->size();
  }
}

std::map<OlderKey, std::string> OlderWalk::payloads(const std::string& run_uid, const std::vector<OlderReport>& reports) {
  if (run_uid != of_.run_uid || !window_ || reports.empty()) return history_.payloads(run_uid, reports);
  const bool known = std::all_of(reports.begin(), reports.end(),
                                 [&](const OlderReport& report) { return window_->payloads.contains(report.key); });
  if (!known) read_payloads(run_uid, reports);
  std::map<OlderKey, std::string> found;
  for (const auto& report : reports) {
    if (const auto& payload = window_->payloads.at(report.key)) found[report.key] = *payload;
  }
  return found;
}

std::vector<engine::InputRow> OlderWalk::inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) {
  if (run_uid != of_.run_uid || !window_) return history_.inputs(run_uid, after_pos, limit);
  Inputs& held = window_->inputs;
  const bool follows = held.end || (!held.rows.empty() && after_pos <= held.rows.back().pos);
  if (after_pos < held.after || !follows || held.rows.size() > kMostInputs) held = {{}, after_pos, false, 0};
  const auto begin = [&] {
    return std::upper_bound(held.rows.begin(), held.rows.end(), after_pos,
                            [](std::uint64_t pos, const engine::InputRow& row) { return pos < row.pos; });
  };
  const auto wanted = static_cast<std::ptrdiff_t>(limit);
  while (!held.end && held.rows.end() - begin() < wanted) {
    const std::size_t most = measure_.attempts > 1 ? std::max(limit, kMoreInputs) : limit;
    auto more = timed([&] { return history_.inputs(run_uid, held.rows.empty() ? held.after : held.rows.back().pos, most); });
    held.end = more.size() < most;
    for (auto& row : more) {
      held.bytes += sizeof row + row.payload.size();
      held.rows.push_back(std::move(row));
    }
  }
  return {begin(), begin() + std::min(wanted, held.rows.end() - begin())};
}

std::unique_ptr<OlderWalk> OlderWalks::take(const OlderWalk::Of& of, std::uint64_t attempt, bool again) {
  if (history_ == nullptr) return nullptr;
  {
    std::lock_guard lock(mutex_);
    for (auto& walk : walks_) {
      if (!walk->leads_to(of, attempt, again)) continue;
      auto taken = std::move(walk);
      std::erase(walks_, nullptr);
      return taken;
    }
  }
  return std::make_unique<OlderWalk>(*history_, of, limits_);
}

void OlderWalks::put_back(std::unique_ptr<OlderWalk> walk, bool again) {
  if (!walk || !walk->has_begun()) return;
  walk->answered(again);
  if (walk->bytes() > limits_.kept_bytes) return;
  std::lock_guard lock(mutex_);
  walks_.push_front(std::move(walk));
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::erase_if(walks_, [&](const auto& kept) {
    bytes += kept->bytes();
    return ++count > limits_.kept || bytes > limits_.kept_bytes;
  });
}

}  // namespace scalewatch::history
