// A practitioner's checklist for mixed precision, held against what is known of a run. Pure: no I/O, no clock.
//
// Source of the items: rules.md, "Advice", and the frameworks' own guides that it condenses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/finding.h"
#include "server/domain/observation.h"
#include "server/domain/policy.h"

namespace scalewatch::domain {

struct ChecklistScaler {
  std::string name;
  std::string policy;           // empty: not known
  PolicyParameters parameters;  // those that were sent or printed
  std::uint64_t growths = 0;
};

struct ChecklistOptimizer {
  std::string class_name;  // empty: not known
  std::optional<double> eps;
  std::optional<double> weight_decay;
  std::vector<DType> state_dtypes;  // empty: not known
};

struct ChecklistTensor {
  std::string name;
  Role role = Role::kUnspecified;
  DType dtype = DType::kUnspecified;
  std::uint32_t micro_batches = 0;  // of its newest record; 0 = none
};

// What a run or a log shows, of its newest segment.
struct ChecklistFacts {
  bool from_log = false;  // a log shows no calls and no tensors
  DType compute_dtype = DType::kUnspecified;
  std::uint64_t attempts = 0;
  std::uint64_t applied = 0;
  std::uint64_t skipped = 0;
  std::uint32_t segments = 1;  // starts of the run so far
  std::vector<ChecklistScaler> scalers;
  std::vector<ChecklistOptimizer> optimizers;
  std::vector<ChecklistTensor> tensors;
  bool loss = false;       // a loss was reported
  bool grad_norm = false;  // a gradient norm was reported
  std::map<std::string, std::string> labels;
  std::vector<Finding> findings;  // open or resolved
};

enum class Verdict : std::uint8_t { kHolds, kViolated, kNotObservable };

struct Judgement {
  Verdict verdict = Verdict::kNotObservable;
  std::string evidence;  // one sentence: the number or the finding that says so
  std::string send;      // what to send so that it can be seen; only where it can't
};

struct ChecklistItem {
  std::string id;     // stable name
  std::string title;  // what ought to be so
  Judgement judgement;
};

// Every item, in the order of a training script: set-up first, then the loop, then what to do in trouble.
std::vector<ChecklistItem> judge_checklist(const ChecklistFacts& facts);

// "holds", "violated", "not observable"
std::string_view verdict_word(Verdict verdict);

}  // namespace scalewatch::domain
