#include "client_lib/src/mailbox.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "cuda/device/batch.h"

namespace scalewatch::client {
namespace {

// Touches the memory too: otherwise each of its pages would be a fault on the trainer's thread, once.
void make_room(Sheet& sheet, std::size_t tensors) {
  if (sheet.capacity() >= tensors) return;
  sheet.resize(tensors);
  sheet.clear();
}

// A table that grows goes on growing.
std::size_t with_reserve(std::size_t tensors) {
  return tensors + tensors / 4;
}

std::size_t gradients_among(const std::vector<TensorInfo>& tensors) {
  return static_cast<std::size_t>(std::ranges::count(tensors, Role::kGradient, &TensorInfo::role));
}

}  // namespace

Mailbox::Mailbox(std::uint64_t max_bytes) : max_bytes_(max_bytes), attempts_(std::make_unique<Attempt[]>(kAttempts + 1)) {
  attempt_ = &attempts_[kAttempts];
  sheet_ = sheets_.emplace_back(std::make_unique<Sheet>()).get();
  enlarged_.reserve(kEnlargedHere);
}

Mailbox::~Mailbox() {
  delete offered_.load();
  Overrides* retired = nullptr;
  while (retired_.pop(retired)) delete retired;
}

// ---- trainer's thread, setting up -----------------------------------------------------------------------------------

void Mailbox::prepare(std::size_t scalers, std::size_t optimizers, bool histograms) {
  for (std::size_t i = 0; i <= kAttempts; ++i) {
    attempts_[i].scalers.reserve(scalers);
    attempts_[i].optimizers.reserve(optimizers);
    attempts_[i].batches.reserve(kMostBatches);
    if (i < kAttempts) free_attempts_.push(&attempts_[i]);
  }
  for (Sheet& sheet : small_) {
    client::make_room(sheet, kBadKept);
    free_small_.push(&sheet);
  }
  const std::size_t tensors = setting_up_.tensors.size();
  with_histograms_ = histograms;
  for (Histograms& each : histograms_) {
    make_room(each, gradients_among(setting_up_.tensors));
    free_histograms_.push(&each);
  }
  client::make_room(*sheet_, tensors);
  keep_sheets_ready(tensors);
}

void Mailbox::add_tensor(TensorInfo info) {
  const std::lock_guard lock(mutex_);
  setting_up_.tensors.push_back(std::move(info));
}

bool Mailbox::close(Clock::time_point deadline, std::string reason, bool say_goodbye) {
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    for (int tries = 0; !lock && (say_goodbye || tries < 200); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      static_cast<void>(lock.try_lock());
    }
    if (!lock) return false;
    setting_up_.closing = true;
    setting_up_.say_goodbye = say_goodbye;
    setting_up_.deadline = deadline;
    setting_up_.reason = std::move(reason);
    woken_ = true;
  }
  wake_.notify_one();
  return true;
}

// ---- trainer's thread, training -------------------------------------------------------------------------------------

// In half the room a sheet may still grow when it is filled; a smaller one is made larger by the client's thread, and its
// number bounded. But when the table has doubled that thread may not have heard of it yet: then a few are made larger here.
Sheet* Mailbox::take_sheet(std::size_t tensors) noexcept {
  Sheet* sheet = nullptr;
  while (!enlarged_.empty() || free_sheets_.pop(sheet)) {
    if (!enlarged_.empty()) {
      sheet = enlarged_.back();
      enlarged_.pop_back();
    }
    if (sheet->capacity() >= tensors / 2) return sheet;
    if (tensors / 2 >= enlarged_for_ && enlarge(*sheet, tensors)) return sheet;
    outgrown_.push(sheet);  // never full: it holds every sheet there is
  }
  return nullptr;
}

bool Mailbox::enlarge(Sheet& first, std::size_t tensors) noexcept {
  try {
    client::make_room(first, with_reserve(tensors));
    enlarged_for_ = tensors;
    Sheet* sheet = nullptr;
    while (enlarged_.size() + 1 < kEnlargedHere && free_sheets_.pop(sheet)) {
      enlarged_.push_back(sheet);  // has room for so many
      client::make_room(*sheet, with_reserve(tensors));
    }
    return true;
  } catch (const std::bad_alloc&) {
    return first.capacity() >= tensors / 2;
  }
}

Histograms* Mailbox::take_histograms() noexcept {
  if (held_histograms_ == nullptr) free_histograms_.pop(held_histograms_);
  if (held_histograms_ != nullptr) held_histograms_->used = 0;
  return held_histograms_;
}

void Mailbox::post(std::size_t bad, std::size_t tensors) noexcept {
  const std::uint64_t number = attempt_->number;
  Attempt* next = nullptr;
  if (!free_attempts_.pop(next)) {
    for (cuda::Batch* batch : attempt_->batches) batch->abandon();
    sheet_->clear();
    attempt_->reset();
    return ended_.store(number, std::memory_order_release);
  }
  if (sheet_->empty()) {
    // Nothing was measured: the sheet stays.
  } else if (Sheet* spare = take_sheet(tensors)) {
    attempt_->sheet = std::exchange(sheet_, spare);
  } else {
    attempt_->statistics_lost = LossCause::kQueueFull;
    if (bad != 0 && free_small_.pop(attempt_->sheet)) {
      for (const Measured& measured : *sheet_) {
        if (measured.bad() && attempt_->sheet->size() < kBadKept) attempt_->sheet->push_back(measured);
      }
      attempt_->sheet_cut = true;
    }
    sheet_->clear();
  }
  attempt_->histograms = std::exchange(held_histograms_, nullptr);
  posted_.push(std::exchange(attempt_, next));  // never full: it holds every attempt there is
  ended_.store(number, std::memory_order_release);
}

Overrides* Mailbox::overrides() noexcept {
  if (offered_.load(std::memory_order_relaxed) != nullptr && retired_.write_available() > 0) {
    // Freed by the client's thread.
    if (overrides_) retired_.push(overrides_.release());
    overrides_.reset(offered_.exchange(nullptr, std::memory_order_acq_rel));
  }
  return overrides_.get();
}

// ---- client's thread ------------------------------------------------------------------------------------------------

void Mailbox::take(Mail& mail) {
  mail.tensors.clear();
  // In this order: an attempt that had ended by now is posted by now; and it speaks of no tensor that comes under the lock
  // later.
  const auto take_posted = [this, &mail] {
    mail.ended = ended_.load(std::memory_order_acquire);
    posted_.consume_all([&mail](Attempt* attempt) { mail.attempts.push_back(attempt); });
  };
  take_posted();
  {
    const std::lock_guard lock(mutex_);
    std::swap(mail.tensors, setting_up_.tensors);
    if (setting_up_.closing && !mail.closing) mail.reason = setting_up_.reason;
    mail.closing = setting_up_.closing;
    mail.say_goodbye = setting_up_.say_goodbye;
    mail.deadline = setting_up_.deadline;
  }
  // Closing was asked for after the last attempt was posted: that may have come between the two.
  if (mail.closing) take_posted();
  Overrides* retired = nullptr;
  while (retired_.pop(retired)) delete retired;
  tensors_ += mail.tensors.size();
  gradients_ += gradients_among(mail.tensors);
  outgrown_.consume_all([this](Sheet* sheet) { give_back(sheet); });
  keep_sheets_ready(tensors_);
}

std::size_t Mailbox::sheets_for(std::size_t tensors) const noexcept {
  const std::uint64_t bytes = std::max<std::uint64_t>(tensors, 1) * sizeof(Measured);
  const std::uint64_t share = with_histograms_ ? max_bytes_ - max_bytes_ / kHistogramsShare * kHistograms : max_bytes_;
  return std::clamp<std::uint64_t>(share / bytes, 3, kMaxSheets);
}

void Mailbox::make_room(Histograms& histograms, std::size_t gradients) const {
  if (!with_histograms_) return;
  const std::uint64_t most = std::max<std::uint64_t>(max_bytes_ / kHistogramsShare / sizeof(ExponentCounts), kFewestHistograms);
  const std::size_t wanted = std::min<std::uint64_t>(gradients, most);
  if (histograms.slots.size() < wanted) histograms.slots.resize(wanted);
}

void Mailbox::keep_sheets_ready(std::size_t tensors) {
  while (sheets_.size() < sheets_for(tensors)) {
    auto sheet = std::make_unique<Sheet>();
    client::make_room(*sheet, tensors);
    free_sheets_.push(sheets_.emplace_back(std::move(sheet)).get());
  }
}

void Mailbox::give_back(Attempt* attempt) {
  if (Sheet* sheet = attempt->sheet) {
    sheet->clear();
    if (std::ranges::any_of(small_, [sheet](const Sheet& small) { return &small == sheet; })) {
      free_small_.push(sheet);
    } else {
      give_back(sheet);
    }
  }
  if (Histograms* histograms = attempt->histograms) {
    make_room(*histograms, gradients_);
    free_histograms_.push(histograms);
  }
  attempt->reset();
  free_attempts_.push(attempt);
}

void Mailbox::give_back(Sheet* sheet) {
  if (sheets_.size() > sheets_for(tensors_)) {  // made when there were fewer tensors
    std::erase_if(sheets_, [sheet](const auto& owned) { return owned.get() == sheet; });
    return;
  }
  if (sheet->capacity() < tensors_) client::make_room(*sheet, with_reserve(tensors_));
  free_sheets_.push(sheet);
}

bool Mailbox::take_misuse(std::uint64_t attempt, Misuse& misuse) {
  if (misuse_.read_available() == 0 || misuse_.front().attempt > attempt) return false;
  return misuse_.pop(misuse);
}

void Mailbox::offer(std::unique_ptr<Overrides> overrides) {
  delete offered_.exchange(overrides.release(), std::memory_order_acq_rel);  // the one before, if it was not taken yet
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

bool Mailbox::saying_goodbye() const {
  const std::lock_guard lock(mutex_);
  return setting_up_.closing && setting_up_.say_goodbye;
}

void Mailbox::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  published_.notify_all();  // under the lock: the mailbox may be gone as soon as it is released
}

// ---- any thread -----------------------------------------------------------------------------------------------------

void Mailbox::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

Status Mailbox::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Mailbox::wait_durable(std::uint64_t attempt, Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  published_.wait_until(lock, deadline, [this, attempt] { return status_.durable_attempts >= attempt || status_.stopped; });
  return status_.durable_attempts >= attempt;
}

bool Mailbox::wait_finished(Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return published_.wait_until(lock, deadline, [this] { return finished_; });
}

}  // namespace scalewatch::client
