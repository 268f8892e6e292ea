#include "client_lib/src/mailbox.h"

#include <utility>

namespace scalewatch::client {

void Mailbox::post(std::unique_ptr<Attempt>& attempt) {
  std::unique_ptr<Attempt> spare;
  {
    const std::lock_guard lock(mutex_);
    if (mail_.attempts.size() >= kMaxQueued) {
      if (mail_.lost_first == 0) mail_.lost_first = attempt->seq;
      mail_.lost_last = attempt->seq;
      return;  // the attempt is used again
    }
    if (queued_bytes_ + attempt->bytes() > max_bytes_ && !attempt->measured.empty()) {
      attempt->measured.clear();
      ++thinned_;
    }
    queued_bytes_ += attempt->bytes();
    if (!free_.empty()) {
      spare = std::move(free_.back());
      free_.pop_back();
    }
    std::swap(spare, attempt);
    mail_.attempts.push_back(std::move(spare));
    woken_ = true;
  }
  wake_.notify_one();
  if (!attempt) attempt = std::make_unique<Attempt>();
}

void Mailbox::add_tensor(TensorInfo info) {
  const std::lock_guard lock(mutex_);
  mail_.tensors.push_back(std::move(info));
}

void Mailbox::close(Clock::time_point deadline, std::string reason, bool say_goodbye) {
  {
    const std::lock_guard lock(mutex_);
    mail_.closing = true;
    mail_.say_goodbye = say_goodbye;
    mail_.deadline = deadline;
    mail_.reason = std::move(reason);
    woken_ = true;
  }
  wake_.notify_one();
}

void Mailbox::take(Mail& mail) {
  for (auto& attempt : mail.attempts) attempt->reset();
  const std::lock_guard lock(mutex_);
  for (auto& attempt : mail.attempts) {
    if (free_.size() >= kMaxFree) break;
    free_.push_back(std::move(attempt));
  }
  mail.attempts.clear();
  mail.tensors.clear();
  std::swap(mail.attempts, mail_.attempts);
  std::swap(mail.tensors, mail_.tensors);
  mail.lost_first = std::exchange(mail_.lost_first, 0);
  mail.lost_last = std::exchange(mail_.lost_last, 0);
  if (mail_.closing && !mail.closing) mail.reason = mail_.reason;
  mail.closing = mail_.closing;
  mail.say_goodbye = mail_.say_goodbye;
  mail.deadline = mail_.deadline;
  queued_bytes_ = 0;
}

void Mailbox::publish(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  stopped_.store(status.stopped, std::memory_order_relaxed);
  published_.notify_all();
}

void Mailbox::wait_until(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  wake_.wait_until(lock, deadline, [this] { return woken_; });
  woken_ = false;
}

void Mailbox::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

Status Mailbox::status() const {
  const std::lock_guard lock(mutex_);
  Status status = status_;
  status.reports_thinned += thinned_;
  return status;
}

bool Mailbox::wait_durable(std::uint64_t seq, Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  published_.wait_until(lock, deadline, [this, seq] { return status_.durable_seq >= seq || status_.stopped; });
  return status_.durable_seq >= seq;
}

}  // namespace scalewatch::client
