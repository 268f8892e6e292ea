#include "client_lib/src/recorder.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "cuda/record/merge.h"

namespace scalewatch::client {
namespace {

constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxMisuse = 16;
constexpr unsigned kSampling = 16;  // one call in so many has its bookkeeping timed: a clock costs as much as the call

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Only the trainer's thread adds, so a plain load and store do.
void add_to(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

bool is_bad(const Record& record) {
  return record.nan != 0 || record.pos_inf != 0 || record.neg_inf != 0;
}

}  // namespace

Recorder::Recorder(Mailbox& mailbox, DType compute_dtype) : mailbox_(mailbox), compute_dtype_(compute_dtype) {}

std::uint32_t Recorder::add_tensor(TensorInfo info) {
  if (tensors_.size() >= kMaxTensors) throw Refused(SCALEWATCH_LIMIT, "a monitor takes at most 1,000,000 tensors");
  std::string key = info.name + '\n' + std::to_string(static_cast<int>(info.role));
  if (!names_.insert(std::move(key)).second) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "tensor '" + info.name + "' was already added with this role");
  }
  tensors_.push_back({info.role, info.dtype, info.numel});
  mailbox_.add_tensor(std::move(info));
  return static_cast<std::uint32_t>(tensors_.size() - 1);
}

void Recorder::begin(std::int64_t step) {
  if (open_) end();
  attempt_->reset();
  attempt_->seq = last_seq() + 1;
  attempt_->step = step;
  open_ = true;
}

Attempt& Recorder::open_attempt() {
  if (!open_) throw Refused(SCALEWATCH_WRONG_STATE, "no attempt is open: call begin_attempt first");
  return *attempt_;
}

Measured& Recorder::place(std::uint32_t tensor, double scale, std::int32_t target) {
  Attempt& attempt = open_attempt();
  if (tensor >= tensors_.size()) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "unknown tensor: add_tensor gives the id");
  if (target < SCALEWATCH_DTYPE_UNSPECIFIED || target > SCALEWATCH_E5M2) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "target is no scalewatch_dtype");
  }
  if (!(scale >= 0) || std::isinf(scale)) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "scale must be finite and not negative");
  const double under = scale == 0 ? 1 : scale;
  const DType against = target == SCALEWATCH_DTYPE_UNSPECIFIED ? compute_dtype_ : static_cast<DType>(target);
  Declared& declared = tensors_[tensor];
  if (declared.seen_seq != attempt.seq) {
    declared.seen_seq = attempt.seq;
    declared.slot = static_cast<std::uint32_t>(attempt.measured.size());
    Measured& made = attempt.measured.emplace_back();
    made.id = tensor;
    made.role = declared.role;
    made.target = against;
    made.scale = under;
    made.table_numel = declared.numel;
    return made;
  }
  Measured& found = attempt.measured[declared.slot];
  if (found.scale != under || found.target != against) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "this tensor was observed in this attempt under another scale or target");
  }
  return found;
}

void Recorder::add(Measured& into, const Record& record) {
  if (into.first_bad_micro < 0 && is_bad(record)) into.first_bad_micro = into.micro_batches;
  if (into.micro_batches++ == 0) {
    into.record = record;
  } else {
    merge(into.record, record);
  }
}

template <class Measure>
void Recorder::observe_with(std::uint32_t tensor, double scale, std::int32_t target, const Measure& measure) {
  const bool timed = calls_++ % kSampling == 0;
  const std::uint64_t entered = timed ? now_ns() : 0;
  Measured& into = place(tensor, scale, target);
  const std::uint64_t begun = now_ns();
  const Record record = measure(tensors_[tensor].dtype, into.target, into.scale);
  const std::uint64_t measured = now_ns();
  add(into, record);
  add_to(measure_ns_, measured - begun);
  if (timed) add_to(trainer_thread_ns_, (now_ns() - entered - (measured - begun)) * kSampling);
}

void Recorder::observe(std::uint32_t tensor, const void* data, std::uint64_t numel, double scale, std::int32_t target) {
  if (data == nullptr && numel != 0) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "data is NULL");
  observe_with(tensor, scale, target,
               [=](DType dtype, DType against, double under) { return measure(data, dtype, numel, against, under); });
}

void Recorder::observe(std::uint32_t tensor, StridedTensor view, double scale, std::int32_t target) {
  observe_with(tensor, scale, target, [&view](DType dtype, DType against, double under) {
    view.dtype = dtype;
    return measure(view, against, under);
  });
}

void Recorder::observe(std::uint32_t tensor, const Record& record, double scale, std::int32_t target) {
  const bool timed = calls_++ % kSampling == 0;
  const std::uint64_t entered = timed ? now_ns() : 0;
  add(place(tensor, scale, target), record);
  if (timed) add_to(trainer_thread_ns_, (now_ns() - entered) * kSampling);
}

ScalerObservation& Recorder::scaler(std::uint32_t id, std::size_t scalers) {
  Attempt& attempt = open_attempt();
  if (id >= scalers) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "unknown scaler: add_scaler gives the id");
  for (ScalerObservation& seen : attempt.scalers) {
    if (seen.scaler == id) return seen;
  }
  ScalerObservation& made = attempt.scalers.emplace_back();
  made.scaler = id;
  made.scale_before = made.scale_after = std::nan("");
  return made;
}

void Recorder::misuse(Misuse misuse) {
  if (misuse_.size() < kMaxMisuse) misuse_.push_back(std::move(misuse));
}

void Recorder::set_phase(std::int32_t phase) {
  phase_ = phase;
  mailbox_.set_phase(phase);
}

bool Recorder::end() {
  Attempt& attempt = open_attempt();
  const std::uint64_t entered = now_ns();
  open_ = false;
  if (mailbox_.stopped()) {
    misuse_.clear();
    dropped_stopped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  attempt.time_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  attempt.phase = phase_;
  attempt.cost = cost();
  std::swap(attempt.misuse, misuse_);
  misuse_.clear();
  last_seq_.store(attempt.seq, std::memory_order_relaxed);
  mailbox_.post(attempt_);
  add_to(trainer_thread_ns_, now_ns() - entered);
  return true;
}

Cost Recorder::cost() const noexcept {
  return {trainer_thread_ns_.load(std::memory_order_relaxed), measure_ns_.load(std::memory_order_relaxed)};
}

}  // namespace scalewatch::client
