// Checks of what is computed and kept in which format.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "server/domain/checklist_checks.h"
#include "server/domain/text.h"

namespace scalewatch::domain::checklist {

namespace {

constexpr double kFp16Smallest = 0x1p-25;  // magnitudes up to here round to 0 in fp16

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool adam_like(const ChecklistOptimizer& optimizer) {
  const auto name = lower(optimizer.class_name);
  return name.find("adam") != std::string::npos || name.find("lamb") != std::string::npos;
}

// The wider state that stands for a narrow parameter: types.proto says that it is taken for its master copy.
bool has_master(const ChecklistFacts& facts, const ChecklistTensor& parameter) {
  return std::any_of(facts.tensors.begin(), facts.tensors.end(), [&](const ChecklistTensor& t) {
    return t.role == Role::kOptimizerState && wide(t.dtype) && t.name.starts_with(parameter.name + ".");
  });
}

// A finding of these rules that is about an activation with one of the words in its name.
const Finding* about(const ChecklistFacts& facts, std::initializer_list<std::string_view> rules,
                     std::initializer_list<std::string_view> words) {
  for (const auto& finding : facts.findings) {
    if (std::find(rules.begin(), rules.end(), finding.rule) == rules.end()) continue;
    if (has_word(finding.subject, words) || (finding.blame && has_word(finding.blame->tensor, words))) return &finding;
  }
  return nullptr;
}

// What activations with one of these words tell; `what` names the operations.
Judgement of_activations(const ChecklistFacts& facts, std::initializer_list<std::string_view> words, const std::string& what) {
  if (const auto* finding = about(facts, {"NonFiniteActivation", "LowHeadroom", "NonFiniteLoss", "Fp8Saturation"}, words)) {
    return violated(*finding);
  }
  std::size_t seen = 0;
  const ChecklistTensor* example = nullptr;
  for (const auto& tensor : facts.tensors) {
    if (tensor.role != Role::kActivation || !has_word(tensor.name, words)) continue;
    ++seen;
    if (example == nullptr || narrow(tensor.dtype)) example = &tensor;
  }
  if (seen == 0) {
    return unseen("no activation is called after " + what, "the outputs of " + what + " as tensors of role activation");
  }
  if (narrow(example->dtype)) {
    return holds(fmt::format("{} of them: all finite with room, though {} is narrower than fp32", seen, example->name));
  }
  return holds(fmt::format("{} of them, {} among them: fp32, finite", seen, example->name));
}

}  // namespace

Judgement master_weights(const ChecklistFacts& facts) {
  if (const auto* finding = misuse(facts, {"fp16_parameters"})) return violated(*finding);
  if (const auto* finding = found(facts, {"LostUpdates"})) return violated(*finding);
  std::size_t seen = 0;
  const ChecklistTensor* bare = nullptr;
  std::size_t masters = 0;
  for (const auto& tensor : facts.tensors) {
    if (tensor.role != Role::kParameter) continue;
    ++seen;
    if (!narrow(tensor.dtype)) continue;
    if (has_master(facts, tensor)) {
      ++masters;
    } else if (bare == nullptr) {
      bare = &tensor;
    }
  }
  if (seen == 0) return unseen("no parameter was sent", "the parameters (role parameter) with their dtype");
  if (bare != nullptr) return violated(fmt::format("{} is narrower than fp32 and no fp32 copy of it was sent", bare->name));
  if (masters > 0)
    return holds(fmt::format("{} of {} parameters are narrow, each with a wider copy in the optimizer", masters, seen));
  return holds(fmt::format("all {} parameters are fp32", seen));
}

Judgement optimizer_state(const ChecklistFacts& facts) {
  if (const auto* finding = found(facts, {"OptimizerStateUnderflow"})) return violated(*finding);
  std::size_t seen = 0;
  for (const auto& tensor : facts.tensors) {
    if (tensor.role != Role::kOptimizerState) continue;
    if (narrow(tensor.dtype)) return violated(tensor.name + " is narrower than fp32");
    ++seen;
  }
  for (const auto& optimizer : facts.optimizers) {
    if (std::any_of(optimizer.state_dtypes.begin(), optimizer.state_dtypes.end(), narrow)) {
      return violated("the state of " + optimizer.class_name + " is narrower than fp32");
    }
    seen += optimizer.state_dtypes.size();
  }
  if (seen == 0) {
    return unseen("no optimizer state was sent", "the state's dtypes (OptimizerInfo) or its tensors (role optimizer_state)");
  }
  return holds("all state that was named is fp32");
}

Judgement second_moment(const ChecklistFacts& facts) {
  if (const auto* finding = found(facts, {"OptimizerStateUnderflow"})) return violated(*finding);
  bool adam = false;
  bool known = false;
  for (const auto& optimizer : facts.optimizers) {
    known = known || !optimizer.class_name.empty();
    if (!adam_like(optimizer)) continue;
    adam = true;
    if (!optimizer.eps) return unseen("eps is not known", "the optimizer's eps and the dtypes of its state (OptimizerInfo)");
    const bool fp16_state =
        std::find(optimizer.state_dtypes.begin(), optimizer.state_dtypes.end(), DType::kFp16) != optimizer.state_dtypes.end();
    if (fp16_state && *optimizer.eps <= kFp16Smallest) {
      return violated(fmt::format("eps {} rounds to 0 in fp16 state", number_text(*optimizer.eps)));
    }
    if (optimizer.state_dtypes.empty()) {
      return unseen("the dtype of the state is not known", "the dtypes of the optimizer's state (OptimizerInfo)");
    }
  }
  if (!known)
    return unseen("the optimizer's class is not known", "the optimizer's class, eps and state dtypes (OptimizerInfo)");
  if (!adam) return holds(facts.optimizers.front().class_name + " divides by no second moment");
  return holds("eps is kept by the state's dtype, and no second moment went to zero before its gradient");
}

Judgement decoupled_decay(const ChecklistFacts& facts) {
  bool known = false;
  for (const auto& optimizer : facts.optimizers) {
    if (optimizer.weight_decay && *optimizer.weight_decay == 0) {
      known = true;
      continue;
    }
    if (optimizer.class_name.empty() || !optimizer.weight_decay) continue;
    known = true;
    const auto name = lower(optimizer.class_name);
    if (adam_like(optimizer) && name.find("adamw") == std::string::npos && name.find("lamb") == std::string::npos) {
      return violated(fmt::format("{} adds a weight decay of {} to the gradient, under its second moment: AdamW decouples it",
                                  optimizer.class_name, number_text(*optimizer.weight_decay)));
    }
  }
  if (!known) return unseen("the weight decay is not known", "the optimizer's class and weight decay (OptimizerInfo)");
  return holds("weight decay is decoupled, of an optimizer without second moment, or 0");
}

Judgement bf16(const ChecklistFacts& facts) {
  if (facts.compute_dtype == DType::kBf16) return holds("the computation is in bf16");
  if (wide(facts.compute_dtype)) return holds("the computation is in fp32");
  if (const auto* finding = found(
          facts, {"RangeTooWide", "ScaleVanished", "ScaleCollapse", "ScaleAtMinimum", "NonFiniteActivation", "LowHeadroom"})) {
    if (finding->severity >= Severity::kWarning) {
      return violated("range is the trouble (" + finding->rule + ": " + finding->summary + ")");
    }
  }
  if (facts.compute_dtype == DType::kUnspecified) {
    return unseen("the compute dtype is not known", "the compute dtype when the run starts (Hello)");
  }
  return holds("range was no trouble so far");
}

Judgement reductions(const ChecklistFacts& facts) {
  return of_activations(facts, {"softmax", "logsoftmax", "logsumexp", "exp", "mean", "sum"}, "softmax, exp, sum or mean");
}
Judgement divisions(const ChecklistFacts& facts) {
  return of_activations(facts, {"div", "rsqrt", "normalize", "norm", "ln", "layernorm", "rmsnorm"}, "a division or norm");
}
Judgement attention(const ChecklistFacts& facts) {
  return of_activations(facts, {"attn", "attention", "scores", "logits", "qk"}, "attention");
}

Judgement batch_norm(const ChecklistFacts& facts) {
  for (const auto& finding : facts.findings) {
    if (finding.rule == "NonFiniteWeights" && finding.blame && finding.blame->role == Role::kBuffer) return violated(finding);
  }
  std::size_t seen = 0;
  for (const auto& tensor : facts.tensors) {
    const bool statistics = tensor.name.find("running_mean") != std::string::npos ||
                            tensor.name.find("running_var") != std::string::npos || has_word(tensor.name, {"bn", "batchnorm"});
    if (tensor.role != Role::kBuffer || !statistics) continue;
    if (narrow(tensor.dtype)) return violated(tensor.name + " is narrower than fp32");
    ++seen;
  }
  if (seen == 0)
    return unseen("no statistics of a batch norm were sent", "its running mean and variance (role buffer), if there is one");
  return holds(fmt::format("all {} statistics of batch norms are fp32 and finite", seen));
}

}  // namespace scalewatch::domain::checklist
