// Windows of the rules over tensor statistics, for every tensor of one rank: rank_state feeds it record by record.
//
// A sample is a record: what was not measured, or not sent, is none, and moves no window. Records with NaN or +Inf are no
// samples either, for what is finite beside them says nothing; -Inf in an activation is taken as a mask. Gradients of an
// optimizer that has no part in the attempt are none.
//
// Values are judged as the computation had them. Records count subnormal and flushed elements by |x| / scale, which is how the
// computation had them only where that scale is 1 (or the factor of an fp8 cast). Under a loss scale the histogram of exponents
// tells, and between histograms the sum of squares gives a bound that never alarms falsely: of n non-zero elements at most
// sum_sq / t^2 are t or more.
//
// Not thread-safe. Deterministic. Allocates only when the table grows, or when something is wrong.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "server/domain/observation.h"
#include "server/domain/tensor_facts.h"
#include "server/domain/thresholds.h"

namespace scalewatch::domain {

struct RecordColumns;

// log2 by exponent and a straight line between powers of two: within 0.09 octaves, the same on every machine, and cheap.
inline float octaves(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto exponent = static_cast<int>(bits >> 23U) - 127;
  const float mantissa = std::bit_cast<float>((bits & 0x7fffffU) | 0x3f800000U);
  return static_cast<float>(exponent) + (mantissa - 1.0F);
}

class TensorWatch {
 public:
  // Before the first report. Without it: default thresholds, and a rank whose Hello named nothing.
  void configure(RankFacts rank, const Thresholds& thresholds);
  void change_rules(const Thresholds& thresholds) { t_ = thresholds; }

  // One report: begin, its blocks each with its records, end.
  void begin(const TensorTable& table, const AttemptDigest& digest);
  void begin_block(const RecordColumns& block);
  // Record `index` of the block, of tensor `id`, in rising order; `bad`: its non-finite elements, null when it has none. Sets
  // bad->neg_inf_is_new.
  void take(std::uint32_t index, std::uint32_t id, NonFiniteTensor* bad);
  // Fills digest.tensor_faults and digest.unmasked.
  void end(const TensorTable& table, AttemptDigest& digest);

  [[nodiscard]] const TensorFacts& facts(std::uint32_t id) const { return facts_[id]; }
  // What the tables hold now, for reports that change nothing.
  void know(const TensorTable& table);

  template <class A>
  void persist(A& a) {
    a(tensors_, groups_, scales_, lr_, reports_);
    if (groups_.size() != scales_.size() || groups_.size() != seen_.size()) {
      throw std::runtime_error("state is of a rank with other scalers");
    }
  }

  // Bytes kept of each tensor.
  static constexpr std::size_t bytes_per_tensor() { return sizeof(State) + sizeof(TensorFacts); }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  // Which of a tensor's windows a rule uses: roles and formats keep those that share one apart.
  enum Window : std::uint8_t { kStreak, kZeroStreak, kNarrow, kWide, kWindows };
  static constexpr Window window_of(TensorRule rule) {
    switch (rule) {
      case TensorRule::kAllZeroGradient:
        return kZeroStreak;
      case TensorRule::kLowHeadroom:
      case TensorRule::kFp8Saturation:
        return kNarrow;
      case TensorRule::kRangeTooWide:
        return kWide;
      case TensorRule::kGradientUnderflow:
      case TensorRule::kLostUpdates:
      case TensorRule::kOptimizerStateUnderflow:
      case TensorRule::kDominantGradient:
        break;
    }
    return kStreak;
  }

  // Low halves of an attempt and a step: near enough to now to be completed.
  struct Since {
    std::uint32_t attempt = 0;
    std::uint32_t step = 0;
  };
  struct State {
    float zero_base = 0;                    // usual share of zeros of a gradient
    float top = 0;                          // newest largest magnitude other than 0, as computed
    std::array<std::uint32_t, 2> bits{};    // kNarrow, kWide: one bit a sample, newest lowest
    std::array<std::uint16_t, 2> streak{};  // kStreak, kZeroStreak: samples in a row
    std::uint8_t on = 0;                    // bit by TensorRule
    std::uint8_t looks = 0;                 // samples, up to 255
    bool early_neg_inf = false;
    std::uint64_t zeros = 0;  // of the gradient at report `stamp`
    std::uint32_t stamp = 0;  // low half of the number of the newest report with it
    std::array<Since, kWindows> since{};
    template <class A>
    void persist(A& a) {
      a(zero_base, top, bits[0], bits[1], streak[0], streak[1], on, looks, early_neg_inf, zeros, stamp);
      for (Since& one : since) a(one.attempt, one.step);
    }
  };
  static_assert(sizeof(State) <= 80);

  struct Worst {
    std::uint32_t id = 0;
    double value = 0;
    template <class A>
    void persist(A& a) {
      a(id, value);
    }
  };
  // What one rule holds against one group.
  struct Held {
    std::uint32_t tensors = 0;
    std::uint64_t elements = 0;
    Attempt since = 0;
    std::int64_t since_step = 0;
    Attempt touched = 0;       // newest at which one of them was a sample
    std::vector<Worst> worst;  // unordered, at most kMaxWorst
    template <class A>
    void persist(A& a) {
      a(tensors, elements, since, since_step, touched, worst);
    }
  };
  struct Group {
    std::array<Held, kTensorRules> held;
    std::uint32_t gradients = 0;     // tensors that ever came
    std::uint64_t elements = 0;      // of them
    std::uint32_t limiting = kNone;  // gradient with the least headroom lately
    float headroom = 0;              // of it, octaves
    std::uint32_t dominant = kNone;  // gradient that holds most of the squared norm
    std::uint16_t dominant_streak = 0;
    Since dominant_since;
    bool dominates = false;
    std::uint16_t zero_streak = 0;  // attempts in a row with every gradient zero
    Since zero_since;
    bool all_zero = false;
    template <class A>
    void persist(A& a) {
      for (Held& one : held) a(one);
      a(gradients, elements, limiting, headroom, dominant, dominant_streak, dominant_since.attempt, dominant_since.step,
        dominates, zero_streak, zero_since.attempt, zero_since.step, all_zero);
    }
  };
  // The gradients of a group in one report.
  struct Seen {
    double sum_sq = 0;  // unscaled
    double largest = 0;
    std::uint32_t largest_id = kNone;
    std::uint32_t records = 0;
    std::uint32_t non_zero = 0;
    std::uint32_t bad = 0;
    float headroom = 0;
    std::uint32_t limiting = kNone;
  };
  struct Block {
    const RecordColumns* columns = nullptr;
    double scale = 1;
    float max_finite = 0;
    double smallest_normal = 0;
    int normal_exponent = 0;  // of the smallest normal
    float low_above = 0;      // a largest magnitude above it leaves too little headroom,
    float wide_above = 0;     // or too little for what is subnormal beside it
    bool fp16 = false;
    bool fp8 = false;
    std::size_t next_over = 0;
    std::size_t next_exponents = 0;
  };
  // One record of the block, as its rules look at it.
  struct Sample {
    std::uint32_t index = 0;
    std::uint32_t id = 0;
    std::uint64_t numel = 0;
    std::uint64_t zero = 0;
    float absmax = 0;                                                 // as stored, masks left out; 0: none but zeros
    float factor = 1;                                                 // as computed over as stored; NaN: not known
    bool exact = true;                                                // subnormal and flushed are counted as computed
    std::size_t exponents = std::numeric_limits<std::size_t>::max();  // its histogram in the block
  };

  void take_gradient(const Sample& sample, const TensorFacts& facts, State& state);
  void take_range(const Sample& sample, State& state, bool low_counts);
  void take_parameter(const Sample& sample, const TensorFacts& facts, State& state);
  void compare_second_moments();
  void end_gradients();
  [[nodiscard]] float absmax(std::uint32_t index, DType dtype) const;
  [[nodiscard]] double subnormal_share(const Sample& sample) const;
  [[nodiscard]] bool steps(std::uint8_t optimizer) const;
  [[nodiscard]] bool applied(std::uint8_t optimizer) const;
  void note_optimizers(const AttemptDigest& digest);
  void tell_half_weights(const TensorTable& table, AttemptDigest& digest) const;

  [[nodiscard]] static bool is_on(const State& state, TensorRule rule) {
    return ((state.on >> static_cast<unsigned>(rule)) & 1U) != 0;
  }
  // Moves a window by one sample and tells whether the rule's condition holds.
  bool run(std::uint16_t& streak, bool was_on, bool bad, std::uint32_t on_after, std::uint32_t off_after, Since& since) const;
  bool slide(std::uint32_t& bits, bool was_on, bool bad, std::uint32_t on_at, Since& since) const;
  void judge(TensorRule rule, std::uint32_t id, bool now, double value);
  void hold(Held& held, const Since& since, std::uint64_t elements) const;
  [[nodiscard]] double badness(TensorRule rule, const Worst& one) const;
  [[nodiscard]] Since here() const;
  [[nodiscard]] TensorFaults told(TensorRule rule, std::uint32_t group, const TensorTable& table) const;

  RankFacts rank_;
  Thresholds t_;
  std::vector<TensorFacts> facts_;           // made of the table; not persisted
  std::vector<std::uint32_t> half_weights_;  // fp16 weights without a master copy under GradScaler; of facts_
  std::vector<State> tensors_;
  std::vector<Group> groups_{1};
  std::vector<double> scales_{1};  // newest of each group; NaN: not known yet
  double lr_ = 0;                  // at the newest report with parameters
  std::uint32_t reports_ = 0;

  // Of the report at hand.
  Attempt attempt_ = 0;
  std::int64_t step_ = 0;
  double lr_now_ = 0;
  bool scale_fell_ = false;
  bool saw_parameters_ = false;
  bool loss_bad_ = false;
  bool told_optimizers_ = false;
  bool gradients_bad_ = false;
  std::uint64_t stepping_ = 0;  // optimizers that have a part in the attempt, and of them
  std::uint64_t applied_ = 0;   // those that were applied
  Block block_;
  std::vector<Seen> seen_{1};
  std::vector<std::uint32_t> zero_ids_;
  std::vector<std::uint32_t> unmasked_;
  struct SecondMoment {
    std::uint32_t id;
    std::uint64_t zero;
    std::uint64_t numel;
  };
  std::vector<SecondMoment> second_moments_;
};

}  // namespace scalewatch::domain
