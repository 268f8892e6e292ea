// What FP16 optimizers print in two lines: "Grad overflow on iteration 3", then either "Using dynamic loss scale of 8.0" (Apex
// before amp: the attempted scale) or "Reducing dynamic loss scale from 8.0 to 4.0" (DeepSpeed without ZeRO). Every rank prints
// both, and DeepSpeed then says it once more in one line. Here each pair is one reading, and the repetition none.
#include <deque>

#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

enum Rule : std::size_t { kColonOverflow, kOverflow, kUsing, kReducing, kRepeated, kRepeatedUnfused, kClean, kIncreasing };

constexpr LineRule kRules[] = {
    {.text = "Grad overflow on iteration: {step}", .kind = Kind::kSkip},
    {.text = "Grad overflow on iteration {step}", .kind = Kind::kSkip},
    {.text = "Using dynamic loss scale of {scale_before}", .kind = Kind::kSkip, .policy = "apex_fp16_optimizer"},
    {.text = "Reducing dynamic loss scale from {scale_before} to {scale_after}",
     .kind = Kind::kSkip,
     .policy = "deepspeed_fused"},
    {.text = "Overflow detected. Skipping step. Attempted loss scale: {scale_before}, reducing to {scale_after}",
     .kind = Kind::kSkip,
     .policy = "deepspeed_fused"},
    {.text = "fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: {scale_before}, reducing to {scale_after}",
     .kind = Kind::kSkip,
     .policy = "deepspeed_unfused"},
    {.text = "No Grad overflow for {clean_steps} iterations", .kind = Kind::kGrowth, .policy = "deepspeed_fused"},
    {.text = "Increasing dynamic loss scale from {scale_before} to {scale_after}",
     .kind = Kind::kGrowth,
     .policy = "deepspeed_fused"},
};

constexpr std::size_t kMaxOpen = 256;      // ranks whose second line has not come
constexpr std::uint64_t kPatience = 1024;  // lines between the two: ranks print in any order

class OptimizerOverflow : public TemplateFormat {
 public:
  OptimizerOverflow() : TemplateFormat("optimizer_overflow", kRules) {}

  void finish(Readings& out) override {
    for (const Reading& one : open_) out.add_late(one);
    open_.clear();
  }

 protected:
  void matched(std::size_t rule, Reading& reading, Readings& out) override {
    switch (rule) {
      case kColonOverflow:
      case kOverflow: {
        reading.step_counts_attempts = true;
        const Reading one = reading;
        out.drop_last();
        give_up(one.line, out);
        open_.push_back(one);
        return;
      }
      case kUsing:
        if (open_.empty()) {  // said at the start too: no skip about it
          reading.kind = Kind::kScale;
          reading.scale = reading.scale_before;
          reading.scale_before.reset();
          return;
        }
        join(reading);
        return;
      case kReducing:
        pair_ = Pair{*reading.scale_before, *reading.scale_after};
        join(reading);
        return;
      case kRepeated:
      case kRepeatedUnfused:
        if (pair_ && pair_->before == *reading.scale_before && pair_->after == *reading.scale_after) out.drop_last();
        pair_.reset();
        return;
      case kClean: {
        clean_steps_ = reading.clean_steps;
        out.drop_last();
        return;
      }
      case kIncreasing:
        reading.clean_steps = clean_steps_;
        clean_steps_.reset();
        return;
      default:
        return;
    }
  }

 private:
  struct Pair {
    double before = 0;
    double after = 0;
  };

  // The second line tells of the first overflow that is still open.
  void join(Reading& reading) {
    if (open_.empty()) return;
    reading.step = open_.front().step;
    reading.step_counts_attempts = true;
    if (!reading.rank) reading.rank = open_.front().rank;
    open_.pop_front();
  }

  void give_up(std::uint64_t line, Readings& out) {
    while (!open_.empty() && (open_.size() >= kMaxOpen || open_.front().line + kPatience < line)) {
      out.add_late(open_.front());
      open_.pop_front();
    }
  }

  std::deque<Reading> open_;
  std::optional<Pair> pair_;  // told by ranks since it was last repeated
  std::optional<std::uint64_t> clean_steps_;
};

}  // namespace

std::unique_ptr<Format> make_optimizer_overflow() {
  return std::make_unique<OptimizerOverflow>();
}

}  // namespace scalewatch::logimport
