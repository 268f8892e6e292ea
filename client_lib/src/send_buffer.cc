#include "client_lib/src/send_buffer.h"

#include <algorithm>
#include <utility>

namespace scalewatch::client {
namespace {

constexpr std::chrono::seconds kSpoolPause{1};

}  // namespace

SendBuffer::SendBuffer(std::uint64_t max_bytes, std::unique_ptr<Spool> spool)
    : spool_(std::move(spool)), log_(spool_.get()), max_bytes_(max_bytes) {}

SendBuffer::SendBuffer(std::unique_ptr<Leftover> left_over)
    : left_over_(std::move(left_over)), log_(left_over_.get()), max_bytes_(0) {
  for (std::string part; left_over_->next_table(part) == SpoolRead::kOk;) table_.push_back(std::move(part));
  last_seq_ = left_over_->last_seq();
  durable_seq_ = left_over_->empty() ? last_seq_ : left_over_->first_seq() - 1;
  cursor_ = durable_seq_ + 1;
}

std::size_t SendBuffer::find(std::uint64_t seq) const {
  const auto it = std::ranges::lower_bound(items_, seq, {}, &Item::last_seq);
  return static_cast<std::size_t>(it - items_.begin());
}

void SendBuffer::count(Item& item) {
  item.cost = sizeof(Item) + item.message.capacity();
  bytes_ += item.cost;
}

void SendBuffer::push(Item item) {
  item.first_seq = item.last_seq = ++last_seq_;
  item.added = std::chrono::steady_clock::now();
  count(items_.emplace_back(std::move(item)));
}

void SendBuffer::add_report(std::uint64_t attempt, Fullness fullness, std::string message) {
  push({.attempt = attempt, .fullness = fullness, .message = std::move(message)});
  shrink();
}

void SendBuffer::add_loss(std::uint64_t attempt, LossCause cause) {
  push({.attempt = attempt, .cause = cause});
  ++counters_.dropped[static_cast<std::size_t>(cause)];
  merge_around(items_.size() - 1);
  shrink();
}

void SendBuffer::durable(std::uint64_t seq) {
  seq = std::min(seq, cursor_ - 1);
  if (seq <= durable_seq_) return;
  durable_seq_ = seq;
  told_durable_seq_ = std::max(told_durable_seq_, seq);
  if (log_ != nullptr) log_->drop_through(seq);
  while (!from_spool_.empty() && from_spool_.front().last_seq <= seq) {
    durable_attempts_ = std::max(durable_attempts_, from_spool_.front().attempt);
    from_spool_.pop_front();
  }
  while (!items_.empty() && items_.front().last_seq <= seq) pass_front();
  if (!items_.empty()) items_.front().first_seq = std::max(items_.front().first_seq, seq + 1);
}

// The oldest item is durable.
void SendBuffer::pass_front() {
  const Item& item = items_.front();
  durable_attempts_ = std::max(durable_attempts_, item.attempt);
  if (item.thinned_behind) --counters_.thinned;
  if (item.lost_behind) --counters_.dropped[static_cast<std::size_t>(item.cause)];
  forget(item);
  items_.pop_front();
}

void SendBuffer::resume(std::uint64_t seq, bool after_outage, bool keep) {
  seq = std::min(seq, last_seq_);
  // A server that forgot what it once held (another data folder, say): what was freed can't be sent again, and next() finds the
  // gap.
  durable_seq_ = std::min(durable_seq_, seq);
  cursor_ = seq + 1;
  kept_through_ = last_seq_;
  caught_up_ = {};
  window_ = {};
  if (!keep) durable(seq);
  current_ = {};
  from_spool_.clear();
  for (Item& item : items_) {
    if (item.last_seq > seq) item.thinned_behind = item.lost_behind = false;  // from here on it goes as it is
    item.sent = {};
  }
  if (log_ != nullptr || !after_outage) return;
  std::size_t full = 0;
  for (std::size_t i = items_.size(); i-- > 0 && items_[i].last_seq > seq;) {
    Item& item = items_[i];
    if (item.fullness == Fullness::kFull && ++full > kFullOnReconnect) thin(item, Fullness::kBadOnly, LossCause::kReconnect);
  }
}

void SendBuffer::reject(std::uint64_t seq) {
  const std::size_t index = find(seq);
  if (index == items_.size() || items_[index].first_seq > seq) {
    // Out of the spool, where it stays until the server's ack passes it.
    if (log_ != nullptr && seq > durable_seq_ && seq < cursor_)
      ++counters_.dropped[static_cast<std::size_t>(LossCause::kRejected)];
    return;
  }
  if (items_[index].message.empty()) return;
  lose(index, LossCause::kRejected);
  items_[index].lost_behind = false;  // the server counts it as lost, too
}

void SendBuffer::thin_overdue(std::chrono::steady_clock::time_point now) {
  if (log_ != nullptr || cursor_ <= kept_through_) return;
  if (caught_up_ == std::chrono::steady_clock::time_point{}) caught_up_ = now;
  const std::size_t index = find(cursor_);
  if (index == items_.size()) return;
  Item& item = items_[index];
  if (item.first_seq != cursor_ || item.fullness != Fullness::kFull) return;
  if (window_.is_full()) return thin(item, Fullness::kBadOnly, LossCause::kBufferFull);
  if (now - std::max(item.added, caught_up_) < kOverdue) return;
  std::uint64_t waiting = 0;
  for (std::size_t i = index; i < items_.size() && waiting < kOverdueBytes; ++i) waiting += items_[i].cost;
  if (waiting >= kOverdueBytes) thin(item, Fullness::kBadOnly, LossCause::kBufferFull);
}

void SendBuffer::acked(std::uint64_t seq, std::chrono::steady_clock::time_point now) {
  const std::size_t index = find(seq);
  if (index < items_.size() && items_[index].last_seq < cursor_) window_.acked(items_[index].sent, now);
}

const SendBuffer::Item* SendBuffer::next() {
  if (cursor_ > last_seq_) return nullptr;
  if (current_.holds(cursor_)) return &current_;
  const std::size_t index = find(cursor_);
  std::uint64_t known_from = last_seq_ + 1;  // the first seq from the cursor on that is not within a gap
  if (index < items_.size()) {
    const Item& item = items_[index];
    if (item.first_seq == cursor_) return &item;
    if (item.first_seq < cursor_) {  // a loss of which a part was announced
      current_ = item;
      current_.first_seq = cursor_;
      return &current_;
    }
    known_from = item.first_seq;
  }
  if (log_ != nullptr) {
    if (auto item = log_->read(cursor_)) {
      current_ = {.first_seq = cursor_,
                  .last_seq = item->last_seq,
                  .attempt = item->attempt,
                  .cause = item->cause,
                  .fullness = item->full ? Fullness::kFull : Fullness::kBadOnly,
                  .message = std::move(item->message)};
      return &current_;
    }
    if (!log_->empty() && cursor_ <= log_->last_seq()) {
      if (cursor_ >= log_->first_seq()) return nullptr;  // can't be read at this moment
      known_from = std::min(known_from, log_->first_seq());
    }
  }
  current_ = {.first_seq = cursor_, .last_seq = known_from - 1, .cause = LossCause::kInternal};
  return &current_;
}

void SendBuffer::sent(std::chrono::steady_clock::time_point now) {
  const Item* item = next();
  if (item == nullptr) return;
  if (item != &current_) {
    if (item->first_seq > kept_through_) items_[find(cursor_)].sent = window_.send(item->message.size(), now);
  } else {
    from_spool_.push_back({item->last_seq, item->attempt});
    // Found missing just now: what was damaged on disk, or freed for a server that forgot. Other causes were counted before.
    if (item->message.empty() && item->cause == LossCause::kInternal && item->last_seq > gap_counted_) {
      counters_.dropped[static_cast<std::size_t>(item->cause)] += item->last_seq - std::max(item->first_seq - 1, gap_counted_);
      gap_counted_ = item->last_seq;
    }
  }
  cursor_ = item->last_seq + 1;
  current_ = {};
}

void SendBuffer::too_large() {
  const Item* item = next();
  if (item == nullptr || item->message.empty()) return;
  const auto less = item->fullness == Fullness::kFull ? Fullness::kBadOnly : Fullness::kNone;
  Item& thinned = item == &current_ ? current_ : items_[find(cursor_)];
  if (item->fullness != Fullness::kNone) return thin(thinned, less, LossCause::kTooLarge);
  if (&thinned != &current_) return lose(find(cursor_), LossCause::kTooLarge);
  current_.message.clear();
  current_.cause = LossCause::kTooLarge;
  ++counters_.dropped[static_cast<std::size_t>(LossCause::kTooLarge)];
}

void SendBuffer::thin(Item& item, Fullness fullness, LossCause cause) {
  std::string thinned = thin_report(item.message, fullness, cause);
  const bool in_memory = &item != &current_;
  item.fullness = fullness;
  if (thinned.empty()) return;
  // Once a report, whatever it loses first.
  if (!item.thinned) {
    item.thinned = true;
    ++counters_.thinned;
    item.thinned_behind = in_memory && item.last_seq < cursor_;
  }
  if (in_memory) forget(item);
  thinned.shrink_to_fit();
  item.message = std::move(thinned);
  if (in_memory) count(item);
}

void SendBuffer::lose(std::size_t index, LossCause cause) {
  Item& item = items_[index];
  forget(item);
  std::string().swap(item.message);
  item.fullness = Fullness::kNone;
  item.cause = cause;
  item.lost_behind = item.last_seq < cursor_;
  count(item);
  ++counters_.dropped[static_cast<std::size_t>(cause)];
  merge_around(index);
}

// Joins the loss at index with losses of the same cause beside it.
void SendBuffer::merge_around(std::size_t index) {
  const auto joins = [this](std::size_t a, std::size_t b) {
    return items_[a].message.empty() && items_[b].message.empty() && items_[a].cause == items_[b].cause &&
           !items_[a].lost_behind && !items_[b].lost_behind;
  };
  const auto join_next = [this](std::size_t at) {
    items_[at].last_seq = items_[at + 1].last_seq;
    items_[at].attempt = std::max(items_[at].attempt, items_[at + 1].attempt);
    forget(items_[at + 1]);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  };
  if (index + 1 < items_.size() && joins(index, index + 1)) join_next(index);
  if (index > 0 && joins(index - 1, index)) join_next(index - 1);
}

// Moves the oldest item to the spool; false when that takes no more.
bool SendBuffer::move_to_spool() {
  // A disk that just refused is not asked again with every report.
  const auto now = std::chrono::steady_clock::now();
  if (now < spool_again_) return false;
  spool_again_ = now + kSpoolPause;
  while (spool_->table_parts() < table_.size()) {
    if (!spool_->append_table(table_[spool_->table_parts()])) return false;
  }
  const Item& item = items_.front();
  const bool full = item.fullness == Fullness::kFull;
  if (!spool_->append({item.first_seq, item.last_seq, item.attempt, full, item.cause, item.message},
                      std::chrono::system_clock::now())) {
    return false;
  }
  spool_again_ = {};
  // Sent already: its attempt is durable when its seq is.
  if (item.last_seq < cursor_) from_spool_.push_back({item.last_seq, item.attempt});
  forget(item);
  items_.pop_front();
  return true;
}

void SendBuffer::thin_all(Fullness fullness, std::uint64_t& thin_before, LossCause cause) {
  for (std::size_t i = find(thin_before); i < items_.size() && bytes_ > max_bytes_; ++i) {
    if (items_[i].fullness > fullness) thin(items_[i], fullness, cause);
    thin_before = items_[i].last_seq + 1;
  }
}

// Brings the memory under its bound: to the spool; or statistics of the oldest reports first, then the oldest reports, then
// the causes of losses that lie side by side.
void SendBuffer::shrink() {
  while (spool_ && bytes_ > max_bytes_ && !items_.empty() && move_to_spool()) {
  }
  if (bytes_ <= max_bytes_) return;
  const LossCause cause = spool_ ? LossCause::kSpoolLimit : LossCause::kBufferFull;
  thin_all(Fullness::kBadOnly, bad_only_before_, cause);
  thin_all(Fullness::kNone, bare_before_, cause);
  std::size_t i = 0;
  while (bytes_ > max_bytes_ && i < items_.size()) {
    if (items_[i].message.empty()) {
      ++i;
      continue;
    }
    lose(i, cause);
    // Merging moved what follows to i, or left the loss there: both are passed in the next round.
    if (i > 0) --i;
  }
  while (bytes_ > max_bytes_ && items_.size() > 1) {
    const std::uint64_t moved = items_[1].last_seq - items_[1].first_seq + 1;
    counters_.dropped[static_cast<std::size_t>(items_[1].cause)] -= moved;
    counters_.dropped[static_cast<std::size_t>(items_[0].cause)] += moved;
    items_[1].cause = items_[0].cause;
    items_[0].lost_behind = items_[1].lost_behind = false;
    merge_around(0);
  }
}

void SendBuffer::drop_old(std::chrono::system_clock::time_point now) {
  if (log_ != nullptr) counters_.dropped[static_cast<std::size_t>(LossCause::kSpoolLimit)] += log_->expire(now);
}

bool SendBuffer::save() {
  if (!spool_) return all_durable();
  spool_again_ = {};
  while (!items_.empty() && move_to_spool()) {
  }
  return items_.empty();
}

void SendBuffer::abandon() {
  if (log_ != nullptr) log_->remove();
  log_ = nullptr;
  spool_.reset();
  left_over_.reset();
  items_.clear();
  from_spool_.clear();
  current_ = {};
  bytes_ = 0;
  last_seq_ = durable_seq_;
  cursor_ = last_seq_ + 1;
}

}  // namespace scalewatch::client
