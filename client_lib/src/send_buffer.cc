#include "client_lib/src/send_buffer.h"

#include <algorithm>
#include <utility>

#include "client_lib/src/pack.h"

namespace scalewatch::client {

std::size_t SendBuffer::find(std::uint64_t seq) const {
  const auto it = std::ranges::lower_bound(items_, seq, {}, &Item::last_seq);
  return static_cast<std::size_t>(it - items_.begin());
}

void SendBuffer::push(Item item) {
  last_seq_ = item.last_seq;
  bytes_ += cost(item);
  items_.push_back(std::move(item));
}

void SendBuffer::add_report(std::uint64_t seq, bool full, std::string message) {
  push({seq, seq, LossCause::kInternal, full, std::move(message)});
  shrink();
}

void SendBuffer::add_loss(std::uint64_t seq, LossCause cause) {
  push({seq, seq, cause, false, {}});
  ++counters_.dropped[static_cast<std::size_t>(cause)];
  merge_around(items_.size() - 1);
  shrink();
}

void SendBuffer::durable(std::uint64_t seq) {
  seq = std::min(seq, last_seq_);
  if (seq <= durable_seq_) return;
  durable_seq_ = seq;
  while (!items_.empty() && items_.front().last_seq <= seq) {
    bytes_ -= cost(items_.front());
    items_.pop_front();
  }
  if (!items_.empty()) items_.front().first_seq = std::max(items_.front().first_seq, seq + 1);
}

void SendBuffer::resume(std::uint64_t seq) {
  seq = std::min(seq, last_seq_);
  if (seq < durable_seq_) {
    // The server forgot what it once held (another data folder, say). What was freed can't be sent again.
    const std::uint64_t lost = durable_seq_ - seq;
    Item item{seq + 1, durable_seq_, LossCause::kInternal, false, {}};
    bytes_ += cost(item);
    items_.push_front(std::move(item));
    counters_.dropped[static_cast<std::size_t>(LossCause::kInternal)] += lost;
    durable_seq_ = seq;
    merge_around(0);
  }
  durable(seq);
  cursor_ = seq + 1;
}

void SendBuffer::reject(std::uint64_t seq) {
  const std::size_t index = find(seq);
  if (index == items_.size() || items_[index].first_seq > seq || items_[index].message.empty()) return;
  lose(index, LossCause::kRejected);
}

const SendBuffer::Item* SendBuffer::next() {
  const std::size_t index = find(cursor_);
  if (index == items_.size()) return nullptr;
  const Item& item = items_[index];
  if (item.first_seq >= cursor_) return &item;
  part_ = item;
  part_.first_seq = cursor_;
  return &part_;
}

void SendBuffer::sent() {
  const std::size_t index = find(cursor_);
  if (index != items_.size()) cursor_ = items_[index].last_seq + 1;
}

void SendBuffer::too_large() {
  const std::size_t index = find(cursor_);
  if (index == items_.size() || items_[index].message.empty()) return;
  if (items_[index].full) {
    thin(items_[index]);
  } else {
    lose(index, LossCause::kTooLarge);
  }
}

void SendBuffer::thin(Item& item) {
  bytes_ -= cost(item);
  item.full = false;
  std::string thinned = thin_report(item.message);
  if (!thinned.empty()) {
    thinned.shrink_to_fit();
    item.message = std::move(thinned);
    ++counters_.thinned;
  }
  bytes_ += cost(item);
}

void SendBuffer::lose(std::size_t index, LossCause cause) {
  Item& item = items_[index];
  bytes_ -= cost(item);
  item.message = std::string();
  item.full = false;
  item.cause = cause;
  bytes_ += cost(item);
  ++counters_.dropped[static_cast<std::size_t>(cause)];
  merge_around(index);
}

// Joins the loss at index with losses of the same cause beside it.
void SendBuffer::merge_around(std::size_t index) {
  const auto joins = [this](std::size_t a, std::size_t b) {
    return items_[a].message.empty() && items_[b].message.empty() && items_[a].cause == items_[b].cause;
  };
  const auto join_next = [this](std::size_t at) {
    items_[at].last_seq = items_[at + 1].last_seq;
    bytes_ -= cost(items_[at + 1]);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  };
  if (index + 1 < items_.size() && joins(index, index + 1)) join_next(index);
  if (index > 0 && joins(index - 1, index)) join_next(index - 1);
}

// Brings the buffer under its bound: statistics of the oldest reports first, then the oldest reports, then the causes of
// losses that lie side by side.
void SendBuffer::shrink() {
  if (bytes_ <= max_bytes_) return;
  for (std::size_t i = find(thin_before_); i < items_.size() && bytes_ > max_bytes_; ++i) {
    if (items_[i].full) thin(items_[i]);
    thin_before_ = items_[i].last_seq + 1;
  }
  std::size_t i = 0;
  while (bytes_ > max_bytes_ && i < items_.size()) {
    if (items_[i].message.empty()) {
      ++i;
      continue;
    }
    lose(i, LossCause::kBufferFull);
    // Merging moved what follows to i, or left the loss there: both are passed in the next round.
    if (i > 0) --i;
  }
  while (bytes_ > max_bytes_ && items_.size() > 1) {
    items_[1].cause = items_[0].cause;
    merge_around(0);
  }
}

}  // namespace scalewatch::client
