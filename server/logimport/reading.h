// What one place in a log says, in the trainer's own terms: what every log format reads into, and all that the story of a run
// (story.h) is made from. Plain values; nothing here judges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace scalewatch::logimport {

// What was printed, not what is true: a scale may stand for before or after a backoff, a counter for an interval or in total.
struct Reading {
  enum class Kind : std::uint8_t {
    kRecord,       // numbers of a step or an interval: loss, scale, gradient norm, learning rate, counters
    kProgress,     // only where the trainer is: a progress bar, a step counter
    kSkip,         // the scaler skipped a step and lowered its scale, or would have (at the floor)
    kHeldSkip,     // it skipped a step and lowered its hysteresis, not its scale
    kGrowth,       // it raised its scale
    kScale,        // the scale or a setting of the scaler was printed, with no step about it
    kNonFinite,    // a detector named a tensor or module that is NaN or Inf
    kRanksDiffer,  // a line says that ranks hold different parameters, scales or losses
    kMisuse,       // the framework refused a use of the scaler (misuse_kind), or says that one happened
    kFatal,        // the trainer gave up: minimum scale reached and the like
    kRunStart,     // a new run, or a resumed one, begins here
    kCheckpoint,   // a checkpoint was loaded: what follows is resumed
    kEnd,          // the trainer says that it has finished
    kModuleRange,  // one tensor of a dump of forward frames: its smallest and largest magnitude
    kNorm,         // a gradient norm that was clipped hard, with no step about it
    kDominates,    // one tensor holds most of the squared gradient norm (tensor, share)
  };
  enum class Span : std::uint8_t {
    kUnknown,
    kStep,      // the number is of this step
    kInterval,  // since the record before: a mean for numbers, a count for counters
    kTotal,     // since the run began: a running mean, a counter that only grows
  };

  Kind kind = Kind::kRecord;
  std::uint64_t line = 0;               // from 1, in the file as it is
  std::uint32_t file = 0;               // index of the file, from 0, where several were read
  std::string_view format;              // name of the format that read it
  std::optional<std::int64_t> time_ms;  // printed on the line; any zone, for gaps only
  std::optional<std::uint32_t> rank;    // that printed the line, where it says so
  std::optional<std::uint32_t> scaler;  // its id, where the line says so

  // ---- where the trainer is
  std::optional<std::int64_t> step;  // the optimizer's step, iteration or update
  std::optional<std::int64_t> steps_total;
  std::optional<double> epoch;        // may be a fraction
  std::optional<std::int64_t> batch;  // within the epoch, where there is no step (or beside it)
  std::optional<std::int64_t> batches_per_epoch;
  // The step is that of an attempt (advances also when it is skipped). False: it counts updates. Absent: not known.
  std::optional<bool> step_counts_attempts;
  std::optional<std::uint64_t> attempts_per_record;  // the interval, where the format prints it

  // ---- the scaler
  std::string_view policy;             // registered policy that this line's words belong to; empty: not known. Static storage.
  std::optional<double> scale_before;  // in force at the attempt
  std::optional<double> scale_after;   // from then on
  std::optional<double> scale;         // printed as it is, before or after unknown
  Span scale_span = Span::kUnknown;    // kInterval: a mean, no observation
  double scale_quantum = 0;            // what one unit of its last printed digit is worth; 0 = printed exactly
  std::optional<std::int32_t> hysteresis_before, hysteresis_after;
  bool scale_is_static = false;
  std::optional<std::uint64_t> skipped;  // counter of skipped steps
  Span skipped_span = Span::kUnknown;
  std::optional<std::uint64_t> nan_skipped;  // of them (or beside them): steps with NaN
  std::optional<std::uint64_t> clean_steps;  // "no overflow for so many"

  // ---- numbers of the step or interval
  std::optional<double> loss;  // may be NaN or Inf
  Span loss_span = Span::kUnknown;
  std::optional<double> loss_now;    // of this very step, where the line prints both (loss 0.43 (0.47))
  std::optional<double> loss_part;   // a part of a loss (value_loss, mask loss) where no total is printed
  bool loss_missing = false;         // this format prints a loss on every such record but this one
  std::optional<double> valid_loss;  // of an evaluation: never a training loss
  std::optional<double> grad_norm;   // may be NaN or Inf
  Span grad_norm_span = Span::kUnknown;
  std::optional<double> norm_limit;  // that a norm is clipped at, where that follows the usual norm
  std::optional<double> share;       // kDominates: of the squared gradient norm, 0 to 1
  std::optional<double> lr;
  std::optional<double> accuracy;  // 0 to 1, or to 100

  // ---- what it names. The views are of static storage; what the line itself says is owned, for lines go away.
  std::string_view non_finite;              // "nan", "inf" or "both"
  std::string_view where;                   // "forward", "backward", "weights", "input", "loss" or empty
  std::string_view misuse_kind;             // as the domain names it (misuse_kinds.h)
  std::string tensor;                       // tensor, parameter or module
  std::string detail;                       // the line's own words, for people; at most 200 bytes
  std::optional<std::uint32_t> other_rank;  // kRanksDiffer: the other of the two
  std::optional<double> abs_min, abs_max;   // kModuleRange
};

// Takes readings in the order that the log holds them.
class ReadingSink {
 public:
  virtual ~ReadingSink() = default;
  virtual void take(const Reading& reading) = 0;
};

}  // namespace scalewatch::logimport
