// The checklist: each item holds, is violated, or says what to send, and never judges what it can't see.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "server/domain/checklist.h"

namespace scalewatch::domain {
namespace {

Judgement judged(const ChecklistFacts& facts, const std::string& id) {
  for (const auto& item : judge_checklist(facts)) {
    if (item.id == id) return item.judgement;
  }
  ADD_FAILURE() << "no item " << id;
  return {};
}
Verdict verdict(const ChecklistFacts& facts, const std::string& id) {
  return judged(facts, id).verdict;
}

Finding finding(const std::string& rule, Severity severity = Severity::kWarning, const std::string& subject = "") {
  Finding out;
  out.rule = rule;
  out.severity = severity;
  out.subject = subject;
  out.summary = "what " + rule + " says";
  return out;
}

// A run that does everything right and sends everything.
ChecklistFacts exemplary() {
  ChecklistFacts facts;
  facts.compute_dtype = DType::kFp16;
  facts.attempts = 500;
  facts.applied = 498;
  facts.skipped = 2;
  facts.segments = 2;
  facts.scalers = {{"default", "pytorch", {{"init_scale", 65536}, {"growth_interval", 2000}}, 3}};
  facts.optimizers = {{"AdamW", 1e-8, 0.01, {DType::kFp32, DType::kFp32}}};
  facts.tensors = {{"l.weight", Role::kParameter, DType::kFp32, 1},
                   {"l.weight", Role::kGradient, DType::kFp32, 4},
                   {"l.weight.exp_avg_sq", Role::kOptimizerState, DType::kFp32, 1},
                   {"l.softmax", Role::kActivation, DType::kFp32, 4},
                   {"l.norm", Role::kActivation, DType::kFp32, 4},
                   {"l.attn.scores", Role::kActivation, DType::kFp32, 4},
                   {"bn.running_var", Role::kBuffer, DType::kFp32, 1}};
  facts.loss = true;
  facts.grad_norm = true;
  facts.labels["anomaly_mode"] = "off";
  return facts;
}

TEST(Checklist, NothingKnownIsNothingJudgedAndEachItemSaysWhatToSend) {
  std::set<std::string> ids;
  for (const auto& item : judge_checklist({})) {
    EXPECT_TRUE(ids.insert(item.id).second) << item.id;
    EXPECT_FALSE(item.title.empty());
    EXPECT_NE(item.judgement.verdict, Verdict::kViolated) << item.id;
    if (item.judgement.verdict != Verdict::kNotObservable) continue;
    EXPECT_FALSE(item.judgement.send.empty()) << item.id;
    EXPECT_FALSE(item.judgement.evidence.empty()) << item.id;
  }
  EXPECT_GE(ids.size(), 20U);
}

TEST(Checklist, AnExemplaryRunViolatesNothingAndOnlyCodeIsNotSeen) {
  std::set<std::string> unseen;
  for (const auto& item : judge_checklist(exemplary())) {
    EXPECT_NE(item.judgement.verdict, Verdict::kViolated) << item.id << ": " << item.judgement.evidence;
    if (item.judgement.verdict == Verdict::kNotObservable) unseen.insert(item.id);
  }
  EXPECT_EQ(unseen, (std::set<std::string>{"autocast", "custom_functions", "fp32_first"}));
}

TEST(Checklist, EveryItemThatAFindingSpeaksOfIsViolatedByIt) {
  struct Case {
    const char* id;
    Finding finding;
  };
  const Case cases[] = {{"dynamic_scale", finding("MissingScaler")},
                        {"master_weights", finding("LostUpdates")},
                        {"master_weights", finding("Misuse", Severity::kWarning, "fp16_parameters")},
                        {"optimizer_state", finding("OptimizerStateUnderflow")},
                        {"second_moment", finding("OptimizerStateUnderflow")},
                        {"step_then_update", finding("Misuse", Severity::kCritical, "update_twice")},
                        {"step_then_update", finding("ScaleStuck")},
                        {"clip_after_unscale", finding("Misuse", Severity::kWarning, "clip_before_unscale")},
                        {"accumulation", finding("Misuse", Severity::kWarning, "scale_changed")},
                        {"restored", finding("Misuse", Severity::kWarning, "scaler_not_restored")},
                        {"calm", finding("ConsecutiveSkips", Severity::kCritical)},
                        {"restless", finding("FrequentSkippedSteps")},
                        {"learning_rate", finding("GradNormSpike")},
                        {"bf16", finding("RangeTooWide")},
                        {"attention", finding("LowHeadroom", Severity::kWarning, "l.attn.scores")},
                        {"reductions", finding("NonFiniteActivation", Severity::kCritical, "l.softmax")}};
  for (const auto& c : cases) {
    auto facts = exemplary();
    facts.findings = {c.finding};
    EXPECT_EQ(verdict(facts, c.id), Verdict::kViolated) << c.id;
    EXPECT_NE(judged(facts, c.id).evidence.find(c.finding.rule), std::string::npos) << c.id;
  }
}

TEST(Checklist, AFindingOfAnotherKindViolatesNothingElse) {
  auto facts = exemplary();
  facts.findings = {finding("Misuse", Severity::kWarning, "scheduler_on_skip"), finding("ScaleDrift", Severity::kInfo)};
  for (const auto& item : judge_checklist(facts)) EXPECT_NE(item.judgement.verdict, Verdict::kViolated) << item.id;
}

TEST(Checklist, AStaticScaleIsViolatedAndBf16NeedsNone) {
  auto facts = exemplary();
  facts.scalers = {{"default", "static", {{"init_scale", 128}}, 0}};
  EXPECT_EQ(verdict(facts, "dynamic_scale"), Verdict::kViolated);
  facts.scalers = {{"default", "somebody's own", {}, 0}};
  EXPECT_EQ(verdict(facts, "dynamic_scale"), Verdict::kNotObservable);
  facts.scalers.clear();
  EXPECT_EQ(verdict(facts, "dynamic_scale"), Verdict::kNotObservable);
  facts.compute_dtype = DType::kBf16;
  EXPECT_EQ(verdict(facts, "dynamic_scale"), Verdict::kHolds);
  EXPECT_EQ(verdict(facts, "bf16"), Verdict::kHolds);
}

TEST(Checklist, NarrowWeightsNeedAWiderCopy) {
  auto facts = exemplary();
  facts.tensors[0].dtype = DType::kFp16;
  facts.tensors[2].dtype = DType::kFp16;  // the only state there is
  EXPECT_EQ(verdict(facts, "master_weights"), Verdict::kViolated);
  EXPECT_EQ(verdict(facts, "optimizer_state"), Verdict::kViolated);
  facts.tensors.push_back({"l.weight.master", Role::kOptimizerState, DType::kFp32, 1});
  EXPECT_EQ(verdict(facts, "master_weights"), Verdict::kHolds);
}

TEST(Checklist, AdamsEpsAndDecay) {
  auto facts = exemplary();
  facts.optimizers = {{"Adam", 1e-8, 0.01, {DType::kFp16}}};
  EXPECT_EQ(verdict(facts, "second_moment"), Verdict::kViolated);
  EXPECT_EQ(verdict(facts, "decoupled_decay"), Verdict::kViolated);
  facts.optimizers = {{"Adam", 1e-4, 0.0, {DType::kFp16}}};
  EXPECT_EQ(verdict(facts, "second_moment"), Verdict::kHolds);
  EXPECT_EQ(verdict(facts, "decoupled_decay"), Verdict::kHolds);
  facts.optimizers = {{"SGD", std::nullopt, 0.01, {}}};
  EXPECT_EQ(verdict(facts, "second_moment"), Verdict::kHolds);
  EXPECT_EQ(verdict(facts, "decoupled_decay"), Verdict::kHolds);
}

TEST(Checklist, ARestlessRunWithACalmScalerIsNotToldToBeCalmer) {
  auto facts = exemplary();
  facts.findings = {finding("FrequentSkippedSteps")};
  EXPECT_NE(judged(facts, "restless").evidence.find("init_scale 2^16, growth_interval 2000"), std::string::npos);
  facts.scalers[0].parameters = {{"init_scale", 32768}, {"growth_interval", 5000}};
  EXPECT_EQ(verdict(facts, "restless"), Verdict::kNotObservable);
}

TEST(Checklist, ABatchThatBeganItIsToBeLookedAt) {
  auto facts = exemplary();
  facts.findings = {finding("NonFiniteLoss", Severity::kCritical)};
  facts.findings[0].blame = Blame{};
  facts.findings[0].blame->where = "input";
  facts.findings[0].blame->step = 17;
  EXPECT_NE(judged(facts, "data").evidence.find("step 17"), std::string::npos);
  EXPECT_EQ(verdict(facts, "log_losses"), Verdict::kHolds);
  facts.findings[0].blame->where = "loss";
  EXPECT_EQ(verdict(facts, "log_losses"), Verdict::kViolated);
}

TEST(Checklist, ALogShowsNoCallsAndNoTensors) {
  auto facts = exemplary();
  facts.from_log = true;
  facts.tensors.clear();
  facts.optimizers.clear();
  for (const auto* id :
       {"step_then_update", "clip_after_unscale", "master_weights", "optimizer_state", "batch_norm", "attention"}) {
    EXPECT_EQ(verdict(facts, id), Verdict::kNotObservable) << id;
  }
  EXPECT_EQ(verdict(facts, "calm"), Verdict::kHolds);
}

}  // namespace
}  // namespace scalewatch::domain
