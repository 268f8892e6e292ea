#include "client_lib/src/recorder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/wall_clock.h"
#include "cuda/record/merge.h"

namespace scalewatch::client {
namespace {

constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxMisuse = 16;
constexpr std::uint64_t kLongPass = 4096;
// A call that took longer was interrupted: it counts once and does not stand for the others.
constexpr std::uint64_t kInterruptedNs = 5000;
constexpr std::size_t kCacheLine = 64;

template <std::size_t kSize>
void copy_text(std::array<char, kSize>& to, std::string_view from) {
  const std::size_t size = std::min(from.size(), kSize - 1);
  std::copy_n(from.data(), size, to.data());
  to[size] = '\0';
}

}  // namespace

std::uint64_t Recorder::now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Only the trainer's thread adds, so a plain load and store do.
void Recorder::add_to(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

std::uint64_t Recorder::extrapolated(std::uint64_t ns) {
  return ns > kInterruptedNs ? ns : ns * kSampling;
}

Recorder::Recorder(Mailbox& mailbox, DType compute_dtype, unsigned threads, std::uint64_t histogram_every)
    : mailbox_(mailbox),
      compute_dtype_(compute_dtype),
      workers_(threads > 1 ? std::make_unique<Workers>(threads) : nullptr),
      histogram_every_(histogram_every),
      next_histograms_(histogram_every == 0 ? 0 : 1) {}

void Recorder::add_sampling(Sampling::Rule rule) {
  if (begun_) throw Refused(SCALEWATCH_WRONG_STATE, "sampling is said before the first attempt begins");
  if (!tensors_.empty()) throw Refused(SCALEWATCH_WRONG_STATE, "sampling is said before the first tensor is added");
  if (sampling_.size() >= Sampling::kMaxRules) throw Refused(SCALEWATCH_LIMIT, "a monitor takes at most 64 sampling rules");
  sampling_.add(std::move(rule));
}

std::uint32_t Recorder::add_tensor(TensorInfo info) {
  if (tensors_.size() >= kMaxTensors) throw Refused(SCALEWATCH_LIMIT, "a monitor takes at most 1,000,000 tensors");
  Declared declared{info.role, info.dtype, sampling_.cadence_of(info), info.numel};
  const bool gradient = info.role == Role::kGradient;
  if (gradient) declared.gradient = gradients_;
  const auto [name, added] = names_.insert(info.name + '\n' + std::to_string(static_cast<int>(info.role)));
  if (!added) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "tensor '" + info.name + "' was already added with this role");
  // All or nothing: ids count on both sides.
  try {
    tensors_.push_back(declared);
    mailbox_.add_tensor(std::move(info));
    const auto dtype = static_cast<device::U8>(declared.dtype);
    devices_.expect(device::chunk_count({0, declared.numel, 0, 1, 0, dtype, 0, device::chunk_shift(dtype, declared.numel), 0}),
                    gradient);
    gradients_ += gradient ? 1 : 0;
  } catch (...) {
    tensors_.resize(std::min(tensors_.size(), names_.size() - 1), declared);
    names_.erase(name);
    throw;
  }
  return static_cast<std::uint32_t>(tensors_.size() - 1);
}

void Recorder::begin(std::int64_t step) {
  if (open_) end();
  if (!begun_) {
    begun_ = true;
    due_.resize(sampling_.cadences().size());
  }
  Attempt& attempt = mailbox_.attempt();
  attempt.number = counters_.attempts.load(std::memory_order_relaxed) + 1;
  attempt.step = step;
  open_ = true;
  histograms_ = nullptr;
  // Since the last attempt the trainer used the caches for itself: the first observation need not wait for what it finds here.
  for (std::size_t line = 0; line < 4; ++line) {
    __builtin_prefetch(reinterpret_cast<const char*>(mailbox_.sheet().data()) + line * kCacheLine, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(tensors_.data()) + line * kCacheLine, 1);
  }
  if (mailbox_.stopped()) {  // nobody wants anything any more
    std::ranges::fill(due_, Due{false, SendMode::kIfBad});
    overrides_ = nullptr;
    return;
  }
  for (std::size_t i = 0; i < due_.size(); ++i) due_[i] = due(sampling_.cadences()[i], attempt.number);
  if (Overrides* said = mailbox_.overrides()) {
    for (std::size_t i = 0; i < said->cadences.size(); ++i) said->due[i] = due(said->cadences[i], attempt.number);
    overrides_ = said;
  }
  if (attempt.number == next_histograms_) begin_histograms();
}

void Recorder::begin_histograms() noexcept {
  histograms_ = mailbox_.take_histograms();
  const std::size_t room = histograms_ == nullptr ? 0 : histograms_->slots.size();
  if (room == 0) {
    histograms_ = nullptr;
    add_to(counters_.histograms_lost, gradients_);
  } else {
    histogram_turns_ = (gradients_ + room - 1) / room;
    histogram_turn_ = (next_histograms_ - 1) / histogram_every_ % histogram_turns_;
    devices_.begin_exponents();
  }
  next_histograms_ += histogram_every_;
}

bool Recorder::wants_histogram(const Declared& declared, SendMode send) const noexcept {
  return histograms_ != nullptr && declared.gradient != kNotGradient && send == SendMode::kAlways &&
         declared.gradient % histogram_turns_ == histogram_turn_;
}

ExponentCounts* Recorder::histogram_of(std::uint32_t tensor, Measured& into) noexcept {
  if (!wants_histogram(tensors_[tensor], into.send)) return nullptr;
  if (into.histogram == kNoHistogram) {
    if (histograms_->used == histograms_->slots.size()) {  // tensors were declared since the attempt began
      add_to(counters_.histograms_lost, 1);
      return nullptr;
    }
    into.histogram = static_cast<std::uint32_t>(histograms_->used++);
    histograms_->slots[into.histogram].counts.fill(0);
  }
  return &histograms_->slots[into.histogram];
}

Attempt& Recorder::open_attempt() {
  if (!open_) throw Refused(SCALEWATCH_WRONG_STATE, "no attempt is open: call begin_attempt first");
  return mailbox_.attempt();
}

const Recorder::Declared& Recorder::declared(std::uint32_t tensor) const {
  if (tensor >= tensors_.size()) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "unknown tensor: add_tensor gives the id");
  return tensors_[tensor];
}

Due Recorder::due_of(std::uint32_t tensor) const noexcept {
  if (overrides_ != nullptr && tensor < overrides_->of.size() && overrides_->of[tensor] != 0) {
    return overrides_->due[overrides_->of[tensor] - 1U];
  }
  return due_[tensors_[tensor].cadence];
}

bool Recorder::wanted(std::uint32_t tensor) {
  open_attempt();
  declared(tensor);
  return due_of(tensor).measure;
}

Measured& Recorder::place(std::uint32_t tensor, SendMode send, double scale, std::int32_t target) {
  if (target < SCALEWATCH_DTYPE_UNSPECIFIED || target > SCALEWATCH_E5M2) {
    throw Refused(SCALEWATCH_INVALID_ARGUMENT, "target is no scalewatch_dtype");
  }
  if (!(scale >= 0) || std::isinf(scale)) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "scale must be finite and not negative");
  const double under = scale == 0 ? 1 : scale;
  const DType against = target == SCALEWATCH_DTYPE_UNSPECIFIED ? compute_dtype_ : static_cast<DType>(target);
  if (Measured* placed = place_or_null(tensor, send, under, against)) return *placed;
  throw Refused(SCALEWATCH_INVALID_ARGUMENT, "this tensor was observed in this attempt under another scale or target");
}

bool Recorder::agrees(std::uint32_t tensor, double scale, DType against) const noexcept {
  const Declared& declared = tensors_[tensor];
  if (declared.seen_in != mailbox_.attempt().number) return true;
  const Measured& found = mailbox_.sheet()[declared.slot];
  return found.scale == scale && found.target == against;
}

Measured* Recorder::place_or_null(std::uint32_t tensor, SendMode send, double scale, DType against) {
  Declared& declared = tensors_[tensor];
  Sheet& sheet = mailbox_.sheet();
  const std::uint64_t attempt = mailbox_.attempt().number;
  if (declared.seen_in != attempt) {
    Measured& made = sheet.emplace_back();
    declared.seen_in = attempt;
    declared.slot = static_cast<std::uint32_t>(sheet.size() - 1);
    made.id = tensor;
    made.role = declared.role;
    made.target = against;
    made.send = send;
    made.scale = scale;
    made.table_numel = declared.numel;
    return &made;
  }
  Measured& found = sheet[declared.slot];
  return found.scale == scale && found.target == against ? &found : nullptr;
}

void Recorder::add(Measured& into, const Record& record) {
  const bool was_bad = into.bad();
  if (into.first_bad_micro < 0 && record.non_finite() != 0) into.first_bad_micro = into.micro_batches;
  if (into.micro_batches++ == 0) {
    into.record = record;
  } else {
    merge(into.record, record);
  }
  if (!was_bad && into.bad()) ++bad_;
}

template <class Measure, class Count>
void Recorder::observe_with(std::uint32_t tensor, std::uint64_t numel, double scale, std::int32_t target,
                            const Measure& measure, const Count& count) {
  open_attempt();
  const DType dtype = declared(tensor).dtype;
  const Due due = due_of(tensor);
  if (!due.measure) return add_to(counters_.sampled_out, 1);
  const bool sampled = calls_++ % kSampling == 0;
  const std::uint64_t entered = sampled ? now_ns() : 0;
  Measured& into = place(tensor, due.send, scale, target);
  std::uint64_t counting = 0;
  if (histograms_ != nullptr) [[unlikely]] {
    if (ExponentCounts* counts = histogram_of(tensor, into)) {
      const std::uint64_t begun = now_ns();
      count(dtype, *counts);
      ++into.histogram_micros;
      counting = now_ns() - begun;
      add_to(counters_.measure_ns, counting);
    }
  }
  if (!sampled && numel < kLongPass) return add(into, measure(dtype, into.target, into.scale));
  const std::uint64_t begun = now_ns();
  const Record record = measure(dtype, into.target, into.scale);
  const std::uint64_t pass = now_ns() - begun;
  add(into, record);
  add_to(counters_.measure_ns, numel < kLongPass ? extrapolated(pass) : pass);
  if (sampled) add_to(counters_.trainer_thread_ns, extrapolated(now_ns() - entered - pass - counting));
}

void Recorder::observe(std::uint32_t tensor, const void* data, std::uint64_t numel, double scale, std::int32_t target) {
  if (data == nullptr && numel != 0) throw Refused(SCALEWATCH_INVALID_ARGUMENT, "data is NULL");
  observe_with(
      tensor, numel, scale, target,
      [=, this](DType dtype, DType against, double under) {
        return measure(data, dtype, numel, against, under, workers_.get());
      },
      [=](DType dtype, ExponentCounts& counts) { measure_exponents(data, dtype, numel, counts); });
}

void Recorder::observe(std::uint32_t tensor, StridedTensor view, double scale, std::int32_t target) {
  std::uint64_t numel = 1;
  for (std::size_t i = 0; i < view.dims; ++i) numel *= view.sizes[i];
  observe_with(
      tensor, numel, scale, target,
      [&view, this](DType dtype, DType against, double under) {
        view.dtype = dtype;
        return measure(view, against, under, workers_.get());
      },
      [&view](DType dtype, ExponentCounts& counts) {
        view.dtype = dtype;
        measure_exponents(view, counts);
      });
}

void Recorder::observe(std::uint32_t tensor, const Record& record, double scale, std::int32_t target) {
  open_attempt();
  declared(tensor);
  const Due due = due_of(tensor);
  if (!due.measure) return add_to(counters_.sampled_out, 1);
  const bool sampled = calls_++ % kSampling == 0;
  const std::uint64_t entered = sampled ? now_ns() : 0;
  add(place(tensor, due.send, scale, target), record);
  if (sampled) add_to(counters_.trainer_thread_ns, extrapolated(now_ns() - entered));
}

ScalerObservation& Recorder::scaler(std::uint32_t id) {
  auto& scalers = open_attempt().scalers;
  const auto known = std::ranges::find(scalers, id, &ScalerObservation::scaler);
  if (known != scalers.end()) return *known;
  ScalerObservation& made = scalers.emplace_back();
  made.scaler = id;
  return made;
}

OptimizerObservation& Recorder::optimizer(std::uint32_t scaler, std::uint32_t id) {
  this->scaler(scaler);
  auto& optimizers = mailbox_.attempt().optimizers;
  const auto known = std::ranges::find(optimizers, id, &OptimizerObservation::optimizer);
  OptimizerObservation& seen = known != optimizers.end() ? *known : optimizers.emplace_back();
  seen.scaler = scaler;
  seen.optimizer = id;
  return seen;
}

void Recorder::misuse(std::string_view kind, std::string_view detail, bool raised) {
  Misuse misuse;
  misuse.attempt = counters_.attempts.load(std::memory_order_relaxed) + 1;
  copy_text(misuse.kind, kind);
  copy_text(misuse.detail, detail);
  misuse.raised = raised;
  if (misuses_ >= kMaxMisuse || !mailbox_.post(misuse)) return add_to(counters_.misuse_dropped, 1);
  ++misuses_;
}

void Recorder::set_phase(std::int32_t phase) {
  phase_ = phase;
  mailbox_.set_phase(phase);
}

bool Recorder::end() {
  Attempt& attempt = open_attempt();
  const std::uint64_t entered = now_ns();
  open_ = false;
  misuses_ = 0;
  devices_.end(attempt);
  if (mailbox_.stopped()) {
    for (cuda::Batch* batch : attempt.batches) batch->abandon();
    mailbox_.sheet().clear();
    attempt.reset();
    bad_ = 0;
    add_to(counters_.attempts, 1);
    add_to(counters_.dropped_stopped, 1);
    return false;
  }
  attempt.time_ms = wall_ms();
  attempt.phase = phase_;
  attempt.cost = {counters_.trainer_thread_ns.load(std::memory_order_relaxed),
                  counters_.measure_ns.load(std::memory_order_relaxed),
                  counters_.misuse_dropped.load(std::memory_order_relaxed), devices_.calls_so_far()};
  mailbox_.post(std::exchange(bad_, 0), tensors_.size());
  // After the post: whoever waits for this attempt to be durable waits for one that the client's thread will find.
  counters_.attempts.store(counters_.attempts.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  add_to(counters_.trainer_thread_ns, now_ns() - entered);
  return true;
}

}  // namespace scalewatch::client
