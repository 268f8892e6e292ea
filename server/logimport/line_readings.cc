#include "server/logimport/line_readings.h"

#include <algorithm>
#include <iterator>
#include <memory>

namespace scalewatch::logimport {
namespace {

bool placed(const Reading& reading) {
  return reading.step || reading.batch;
}

void take_progress(Reading& record, const Reading& bar) {
  record.step = bar.step;
  record.steps_total = bar.steps_total;
  record.batch = bar.batch;
  record.batches_per_epoch = bar.batches_per_epoch;
  if (!record.epoch) record.epoch = bar.epoch;
}

}  // namespace

void LineReadings::begin(const Line& line) {
  line_ = &line;
  count_ = 0;
  claims_.clear();
}

Reading& LineReadings::next(std::size_t position) {
  if (count_ == kMaxReadings) --count_;
  if (count_ == all_.size()) all_.emplace_back();
  LineReading& now = all_[count_++];
  now.position = position;
  now.tier = tier_;
  return now.reading;
}

Reading& LineReadings::add(Reading::Kind kind, std::size_t position) {
  Reading& reading = next(position);
  std::destroy_at(&reading);
  std::construct_at(&reading);
  reading.kind = kind;
  reading.line = line_->number;
  reading.format = format_;
  reading.time_ms = line_->time_ms;
  reading.rank = line_->rank;
  return reading;
}

Reading& LineReadings::add_late(const Reading& held) {
  Reading& reading = next(0);
  reading = held;
  return reading;
}

void LineReadings::drop_last() {
  if (count_ > 0) --count_;
}

void LineReadings::claim(std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  auto at = std::lower_bound(claims_.begin(), claims_.end(), begin,
                             [](const auto& claim, std::size_t b) { return claim.second < b; });
  auto last = at;
  for (; last != claims_.end() && last->first <= end; ++last) {
    begin = std::min(begin, last->first);
    end = std::max(end, last->second);
  }
  at = claims_.erase(at, last);
  claims_.insert(at, {begin, end});
}

bool LineReadings::claimed(std::size_t position) const {
  const auto at = std::upper_bound(claims_.begin(), claims_.end(), position,
                                   [](std::size_t p, const auto& claim) { return p < claim.second; });
  return at != claims_.end() && at->first <= position;
}

std::span<const std::string_view> LineReadings::gaps() {
  gaps_.clear();
  std::size_t at = 0;
  for (const auto& [begin, end] : claims_) {
    if (begin > at) gaps_.push_back(line_->text.substr(at, begin - at));
    at = end;
  }
  if (at < line_->text.size()) gaps_.push_back(line_->text.substr(at));
  return gaps_;
}

std::span<LineReading* const> LineReadings::finish() {
  order_.clear();
  for (std::size_t i = 0; i < count_; ++i) order_.push_back(&all_[i]);
  // Nearly always in order; a line of 64 KiB holds few enough.
  const auto earlier = [](const LineReading* a, const LineReading* b) { return a->position < b->position; };
  if (!std::is_sorted(order_.begin(), order_.end(), earlier)) std::stable_sort(order_.begin(), order_.end(), earlier);
  if (order_.size() < 2) return order_;
  // A record beside a bar is of the bar's step: of the nearest before it, or else of the first behind it. That bar itself says
  // nothing more then.
  const auto is = [](Reading::Kind kind) { return [kind](const LineReading* one) { return one->reading.kind == kind; }; };
  const auto record = std::find_if(order_.begin(), order_.end(), is(Reading::Kind::kRecord));
  if (record == order_.end()) return order_;
  const auto before = std::find_if(std::make_reverse_iterator(record), order_.rend(), is(Reading::Kind::kProgress));
  const auto bar =
      before != order_.rend() ? std::prev(before.base()) : std::find_if(record, order_.end(), is(Reading::Kind::kProgress));
  if (bar != order_.end()) {
    if (!placed((*record)->reading)) take_progress((*record)->reading, (*bar)->reading);
    order_.erase(bar);
  }
  return order_;
}

}  // namespace scalewatch::logimport
