#include "server/history/reading.h"

#include "server/history/older_reading.h"

namespace scalewatch::history {

Reading::Reading(ReadPool& pool, OlderHistory* older) : pool_(pool), older_(older) {}
Reading::~Reading() = default;

OlderReading* Reading::older(std::int64_t run, std::uint32_t segment) {
  if (older_ == nullptr) return nullptr;
  const std::pair key{run, segment};
  if (asked_ != key) {
    segment_ = std::make_unique<OlderReading>(*older_, connection(), run, segment);
    if (segment_->floor() == 0) segment_.reset();
    asked_ = key;
  }
  return segment_.get();
}

}  // namespace scalewatch::history
