#include "client_lib/src/collector.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "client_lib/src/log.h"
#include "client_lib/src/wall_clock.h"

namespace scalewatch::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kTableChunkBytes = 16U << 10;  // well below the least that a server may be told to take
constexpr seconds kDevicePatience{30};               // an attempt whose GPUs take longer is sent without what they have to say
constexpr milliseconds kClosingPatience{1000};       // the same while the trainer waits in close
constexpr std::size_t kMaxMisuse = 16;               // of an attempt

// Inf in an activation may be a mask, and says nothing alone.
bool has_failed(const Attempt& attempt) {
  if (attempt.found_inf() || (attempt.loss && !std::isfinite(*attempt.loss))) return true;
  if (attempt.sheet == nullptr) return false;
  return std::ranges::any_of(*attempt.sheet,
                             [](const Measured& m) { return m.record.nan != 0 || (m.bad() && m.role != Role::kActivation); });
}

}  // namespace

Collector::Collector(Mailbox& mailbox, const std::string& name, const Sampling& sampling, Devices& devices, Ring ring,
                     Outbox& out, Status& status)
    : mailbox_(mailbox),
      name_(name),
      sampling_(sampling),
      out_(out),
      status_(status),
      device_results_(devices),
      ring_(std::move(ring)) {}

void Collector::collect(bool stopped) {
  const bool closing = mail_.closing;
  mailbox_.take(mail_);
  if (!mail_.tensors.empty()) collect_tensors();
  if (mail_.closing && !closing) closing_since_ = Clock::now();
  collect_attempts(stopped);
  tell_device_faults();
  if (stopped) return;
  if (mail_.attempts.empty()) note_lost_before(mail_.ended + 1);
  direct();
}

// In their order: one that waits for its GPUs holds those after it up.
void Collector::collect_attempts(bool stopped) {
  std::size_t done = 0;
  for (; done < mail_.attempts.size(); ++done) {
    Attempt& attempt = *mail_.attempts[done];
    if (!settle(attempt)) break;
    if (stopped) {
      ++status_.dropped_stopped;  // ended before the trainer could know
    } else {
      collect(attempt);
    }
    mailbox_.give_back(&attempt);
  }
  mail_.attempts.erase(mail_.attempts.begin(), mail_.attempts.begin() + static_cast<std::ptrdiff_t>(done));
  device_results_.reclaim();
}

bool Collector::settle(Attempt& attempt) {
  if (attempt.batches.empty()) return true;
  const auto now = Clock::now();
  if (waiting_for_ != attempt.number) {
    waiting_for_ = attempt.number;
    waiting_since_ = now;
  }
  const auto closing_at = std::min(closing_since_ + kClosingPatience, mail_.deadline);
  const bool give_up = now >= waiting_since_ + kDevicePatience || (mail_.closing && now >= closing_at);
  return device_results_.settle(attempt, give_up);
}

void Collector::tell_device_faults() {
  for (const DeviceFault& fault : device_results_.new_faults()) {
    device_lines_.push_back("GPU " + std::to_string(fault.device) + " of " + name_ +
                            " is not measured any more; training goes on (" + fault.detail + ")");
  }
  while (!device_lines_.empty() && log_line(device_lines_.front())) device_lines_.erase(device_lines_.begin());
}

void Collector::collect_tensors() {
  auto infos = std::span(mail_.tensors);
  while (!infos.empty()) {
    std::size_t size = 0;
    std::size_t count = 0;
    while (count < infos.size() && size < kTableChunkBytes) {
      const TensorInfo& info = infos[count++];
      out_.hash.add(info);
      size += 48 + info.name.size() + info.shard.size() + info.replica.size() + info.optimizer.size();
    }
    const auto first_id = static_cast<std::uint32_t>(table_.size());
    const auto version = static_cast<std::uint32_t>(out_.buffer.table().size() + 1);
    out_.buffer.add_table(pack_table(version, first_id, infos.first(count)));
    std::move(infos.begin(), infos.begin() + static_cast<std::ptrdiff_t>(count), std::back_inserter(table_));
    infos = infos.subspan(count);
  }
}

// What ended before this attempt and was not posted found the queue full.
void Collector::note_lost_before(std::uint64_t attempt) {
  for (; attempt_ + 1 < attempt; ++attempt_) out_.buffer.add_loss(attempt_ + 1, LossCause::kQueueFull);
}

void Collector::collect(const Attempt& attempt) {
  note_lost_before(attempt.number);
  attempt_ = attempt.number;
  misuse_.clear();
  for (Misuse misuse; misuse_.size() < kMaxMisuse && mailbox_.take_misuse(attempt.number, misuse);) misuse_.push_back(misuse);

  tell_device_faults();
  const SendBuffer& buffer = out_.buffer;
  const ReportCounters counters{
      status_.reports_sent,   buffer.counters().dropped_total(), buffer.counters().thinned, buffer.bytes(),
      buffer.spooled_bytes(), status_.client_thread_ns,          device_results_.counters()};
  const bool full = attempt.sheet != nullptr && attempt.statistics_lost != LossCause::kQueueFull;
  if (attempt.statistics_lost != LossCause::kNone) ++status_.reports_thinned;
  out_.buffer.add_report(attempt.number, full ? Fullness::kFull : Fullness::kBadOnly,
                         packer_.pack(attempt, buffer.last_seq() + 1, misuse_, counters));
  if (ring_.wanted()) {
    if (std::string left_out = packer_.pack_left_out(attempt); !left_out.empty()) ring_.add(std::move(left_out));
  }
  // What lasts is told once: the attempts before its beginning are what shows how it came.
  const bool failing = has_failed(attempt);
  if (failing && !failing_) flush_ring();
  failing_ = failing;
}

void Collector::flush_ring() {
  for (const std::string& left_out : ring_.take()) {
    out_.buffer.add_report(0, Fullness::kFull, with_seq(left_out, out_.buffer.last_seq() + 1));
  }
}

// Works out what the server's directives say, when that is new.
void Collector::direct() {
  directives_.expire(wall_ms(), attempt_ + 1);
  if (directives_.take_ring_request()) flush_ring();
  if (directives_.changed() || (directives_.any() && !mail_.tensors.empty())) {
    mailbox_.offer(directives_.build(table_, sampling_));
  }
}

}  // namespace scalewatch::client
