#include "server/logimport/gate.h"

#include <algorithm>

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxHeld = 64;
constexpr int kEnough = 3;

// A loss alone on a line may be a packet's; with a step or a learning rate it is a trainer's.
int evidence(const Reading& reading) {
  const bool result = reading.loss || reading.loss_now || reading.loss_part || reading.scale;
  const bool place = reading.step || reading.batch || reading.epoch || reading.lr || reading.grad_norm;
  if (result && place) return kEnough;
  return result || (place && (reading.lr || reading.grad_norm)) ? 1 : 0;
}

}  // namespace

void Gate::begin(std::uint32_t file) {
  file_ = file;
  open_ = false;
  evidence_ = 0;
  held_.clear();
}

void Gate::give(const Reading& reading) {
  ++readings_;
  auto count = std::find_if(counts_.begin(), counts_.end(),
                            [&](const Count& c) { return c.format.name.data() == reading.format.data(); });
  if (count == counts_.end()) {
    count = std::find_if(counts_.begin(), counts_.end(), [&](const Count& c) { return c.format.name == reading.format; });
  }
  if (count == counts_.end()) count = counts_.insert(counts_.end(), Count{{reading.format, 0}, 0});
  ++count->format.readings;
  if (reading.kind == Reading::Kind::kProgress) ++count->progress;
  sink_.take(reading);
}

void Gate::open() {
  open_ = true;
  for (const Reading& reading : held_) give(reading);
  held_.clear();
}

void Gate::take(std::span<LineReading* const> readings) {
  for (LineReading* one : readings) {
    Reading& reading = one->reading;
    const bool progress = reading.kind == Reading::Kind::kProgress;
    reading.file = file_;
    if (!open_) {
      evidence_ += one->tier <= Tier::kRecord ? kEnough : progress ? 0 : evidence(reading);
      if (evidence_ >= kEnough) open();
    }
    if (open_) {
      give(reading);
      continue;
    }
    // Of bars only the last matters; and a file that says nothing else must not fill the memory.
    if (progress && !held_.empty() && held_.back().kind == Reading::Kind::kProgress) held_.pop_back();
    if (held_.size() == kMaxHeld) held_.pop_front();
    held_.push_back(reading);
  }
}

void Gate::take(const Reading& reading) {
  Reading here = reading;
  here.file = file_;
  open_ = true;
  give(here);
}

std::vector<ReadSummary::Format> Gate::formats() const {
  std::vector<Count> counts = counts_;
  std::stable_sort(counts.begin(), counts.end(), [](const Count& a, const Count& b) {
    return a.format.readings - a.progress > b.format.readings - b.progress;
  });
  std::vector<ReadSummary::Format> formats;
  formats.reserve(counts.size());
  for (const Count& count : counts) formats.push_back(count.format);
  return formats;
}

}  // namespace scalewatch::logimport
