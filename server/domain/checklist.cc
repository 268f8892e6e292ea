#include "server/domain/checklist.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "server/domain/checklist_checks.h"

namespace scalewatch::domain {

namespace {

struct Row {
  const char* id;
  const char* title;
  Judgement (*judge)(const ChecklistFacts&);
};

constexpr std::array kRows{
    Row{"dynamic_scale", "the loss scale is dynamic, not fixed", checklist::dynamic_scale},
    Row{"master_weights", "weights are kept in fp32 (GradScaler keeps no master copy)", checklist::master_weights},
    Row{"optimizer_state", "optimizer state is kept in fp32", checklist::optimizer_state},
    Row{"second_moment", "Adam's second moment and eps do not underflow", checklist::second_moment},
    Row{"decoupled_decay", "weight decay is decoupled (AdamW), or applied after unscaling", checklist::decoupled_decay},
    Row{"autocast", "autocast is around the forward pass and the loss only, never around backward", checklist::autocast},
    Row{"reductions", "exp, softmax, log-softmax, log of sums, long sums and means stay in range: fp32 for them",
        checklist::reductions},
    Row{"divisions", "divisions by small values stay finite: an eps, a clamp, or fp32", checklist::divisions},
    Row{"log_losses", "losses with a logarithm stay finite: fp32 for them", checklist::log_losses},
    Row{"attention", "attention logits stay in range: fp32 where they don't", checklist::attention},
    Row{"batch_norm", "batch norm runs in fp32 (layer norm is steadier)", checklist::batch_norm},
    Row{"custom_functions", "custom autograd functions cast to fp32 (custom_fwd)", checklist::custom_functions},
    Row{"step_then_update", "step(), then update(), once an attempt", checklist::step_then_update},
    Row{"clip_after_unscale", "clipping comes after unscale_ (max_norm 1.0 for transformers, 5 to 10 for vision)",
        checklist::clip_after_unscale},
    Row{"accumulation", "micro-batches accumulate under one scale; unscale and clip only at the boundary; the loss is divided",
        checklist::accumulation},
    Row{"restored", "the scaler's state is restored at resume", checklist::restored},
    Row{"calm", "skips stay at the rate that the scale's growth explains", checklist::calm},
    Row{"restless", "a restless run has init_scale 2^15 and growth_interval 5,000", checklist::restless},
    Row{"learning_rate", "the learning rate suits fp16: times 0.5 to 0.8 and a longer warm-up if skips come with a rising norm",
        checklist::learning_rate},
    Row{"bf16", "bf16 is used where the GPU has it and range is the trouble", checklist::bf16},
    Row{"data", "bad steps don't come from the data: look at the batch where loss or input went first", checklist::data},
    Row{"fp32_first", "an fp32 run was made first, then fp16 in parts", checklist::fp32_first},
    Row{"anomaly_mode", "anomaly mode is off once the operation was found (it costs much)", checklist::anomaly_mode},
};

}  // namespace

std::vector<ChecklistItem> judge_checklist(const ChecklistFacts& facts) {
  std::vector<ChecklistItem> items;
  items.reserve(kRows.size());
  for (const auto& row : kRows) items.push_back({row.id, row.title, row.judge(facts)});
  return items;
}

std::string_view verdict_word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kViolated:
      return "violated";
    case Verdict::kNotObservable:
      break;
  }
  return "not observable";
}

namespace checklist {

Judgement holds(std::string evidence) {
  return {Verdict::kHolds, std::move(evidence), {}};
}
Judgement violated(std::string evidence) {
  return {Verdict::kViolated, std::move(evidence), {}};
}
Judgement violated(const Finding& finding) {
  return violated(finding.rule + ": " + finding.summary);
}
Judgement unseen(std::string why, std::string send) {
  return {Verdict::kNotObservable, std::move(why), std::move(send)};
}

const Finding* found(const ChecklistFacts& facts, std::initializer_list<std::string_view> rules) {
  const Finding* worst = nullptr;
  for (const auto& finding : facts.findings) {
    if (std::find(rules.begin(), rules.end(), finding.rule) == rules.end()) continue;
    if (worst == nullptr || finding.severity > worst->severity) worst = &finding;
  }
  return worst;
}

const Finding* misuse(const ChecklistFacts& facts, std::initializer_list<std::string_view> kinds) {
  const Finding* worst = nullptr;
  for (const auto& finding : facts.findings) {
    if (finding.rule != "Misuse" || std::find(kinds.begin(), kinds.end(), finding.subject) == kinds.end()) continue;
    if (worst == nullptr || finding.severity > worst->severity) worst = &finding;
  }
  return worst;
}

bool has_word(std::string_view name, std::initializer_list<std::string_view> words) {
  std::string part;
  const auto is_word = [&] { return std::find(words.begin(), words.end(), part) != words.end(); };
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      part += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (is_word()) return true;
    part.clear();
  }
  return is_word();
}

bool sends(const ChecklistFacts& facts, Role role) {
  return std::any_of(facts.tensors.begin(), facts.tensors.end(), [&](const auto& t) { return t.role == role; });
}

bool wide(DType dtype) {
  return dtype == DType::kFp32 || dtype == DType::kFp64;
}
bool narrow(DType dtype) {
  return dtype != DType::kUnspecified && !wide(dtype);
}

}  // namespace checklist

}  // namespace scalewatch::domain
