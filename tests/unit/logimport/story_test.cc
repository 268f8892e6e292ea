// What a log tells beyond single lines: several runs, resumes, several scalers, ranks, logs that grow.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "server/logimport/diagnose.h"

namespace scalewatch::logimport {
namespace {

using domain::Severity;

void read(LogDoctor& doctor, std::string_view log) {
  doctor.begin_file();
  doctor.feed(log);
  doctor.end_file();
}

domain::Diagnosis diagnose(std::string_view log) {
  LogDoctor doctor;
  read(doctor, log);
  doctor.finish();
  return doctor.diagnosis();
}

const domain::Finding* find(const domain::Diagnosis& diagnosis, std::string_view rule) {
  const auto found = std::find_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                                  [&](const domain::Finding& finding) { return finding.rule == rule; });
  return found == diagnosis.findings.end() ? nullptr : &*found;
}

// Steps first to last, every tenth of them told.
std::string records(int first, int last, double scale) {
  std::string out;
  for (int step = first; step <= last; step += 10) {
    out += fmt::format("step {} loss: {:.4f} lr: 0.0003 loss_scale: {:.1f}\n", step, 2 + 1.0 / (step + 1), scale);
  }
  return out;
}

std::string overflow(int scaler, double after, const std::string& prefix = {}) {
  return fmt::format("{}Gradient overflow.  Skipping step, loss scaler {} reducing loss scale to {}\n", prefix, scaler, after);
}

std::string collapse() {
  std::string out;
  for (double scale = 32768; scale > 0x1p-16; scale /= 2) out += overflow(0, scale);
  return out;
}

TEST(Story, AFindingNamesTheRunOfTheFileAndItsLine) {
  const std::string healthy = records(10, 300, 65536);
  LogDoctor doctor;
  read(doctor, healthy + records(10, 200, 65536) + collapse());
  doctor.finish();
  EXPECT_EQ(doctor.runs(), 2U);
  const auto diagnosis = doctor.diagnosis();
  const auto* found = find(diagnosis, "ScaleCollapse");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->segment, 2U);
  EXPECT_GT(found->line, 50U);
  EXPECT_EQ(diagnosis.verdict, Severity::kCritical);
}

TEST(Story, FilesAreRunsOfTheirOwn) {
  LogDoctor doctor;
  read(doctor, records(10, 100, 65536));
  read(doctor, records(110, 200, 65536));
  doctor.finish();
  EXPECT_EQ(doctor.runs(), 2U);
  EXPECT_LE(doctor.diagnosis().verdict, Severity::kInfo);
}

TEST(Story, PartsNameTheFileOfARunAndWhetherItNumbersSteps) {
  LogDoctor doctor;
  read(doctor, records(10, 100, 65536) + records(10, 100, 65536));
  read(doctor, overflow(0, 1024));
  doctor.finish();
  const auto& parts = doctor.parts();
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].file, 0U);
  EXPECT_EQ(parts[1].file, 0U);
  EXPECT_GT(parts[1].line, 1U);
  EXPECT_GT(parts[1].first_attempt, parts[0].first_attempt);
  EXPECT_EQ(parts[2].file, 1U);
  EXPECT_TRUE(parts[0].numbered && parts[1].numbered);
  EXPECT_FALSE(parts[2].numbered);
}

TEST(Story, AnomalyModeNamesTheFunction) {
  const auto diagnosis = diagnose(
      "Traceback (most recent call last):\n"
      "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.\n");
  const auto* found = find(diagnosis, "NonFiniteGradient");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->severity, Severity::kWarning);
  EXPECT_EQ(found->line, 2U);
  EXPECT_THAT(found->summary, testing::HasSubstr("SqrtBackward0"));
  ASSERT_FALSE(found->advice.empty());
  EXPECT_THAT(found->advice.front().text, testing::HasSubstr("forward call of Sqrt "));
}

// Hugging Face's form: a loss that is not finite is left out of the mean.
std::string losses(const std::vector<double>& values, const char* norm) {
  std::string out;
  for (const double loss : values)
    out += fmt::format("{{'loss': {}, 'grad_norm': {}, 'learning_rate': 0.1, 'epoch': 1}}\n", loss, norm);
  return out;
}

TEST(Story, ALossThatBecomesExactlyNothingWasLost) {
  const auto lost = diagnose(losses({2.5, 2.25, 2.125, 0, 0, 0}, "0.0"));
  const auto* found = find(lost, "NonFiniteLoss");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->severity, Severity::kWarning);
  EXPECT_EQ(found->first_step, 4);
  EXPECT_EQ(diagnose(losses({2.5, 2.25, 2.125, 0, 0}, "0.0")).verdict, Severity::kNone) << "two may be chance";
  EXPECT_EQ(diagnose(losses({2.5, 1, 0.25, 0.125, 0, 0, 0, 0}, "0.0")).verdict, Severity::kNone) << "learnt";
  EXPECT_EQ(diagnose(losses({0, 0.0001, 0, 0, 0, 0}, "0.0")).verdict, Severity::kNone) << "it begins there";
  EXPECT_EQ(diagnose(losses({0.0003, 0.0001, 0, 0, 0, 0}, "0.0")).verdict, Severity::kNone) << "rounded";
  EXPECT_EQ(diagnose(losses({2.5, 2.25, 0, 2.5, 0, 0, 0, 0}, "0.0")).verdict, Severity::kNone) << "it comes back";
  EXPECT_EQ(diagnose(losses({2.5, 2.25, 0, 0, 0, 0, 2.5}, "0.0")).verdict, Severity::kNone) << "it comes back later";
  EXPECT_EQ(diagnose(losses({2.5, 2.25, 2.125, 0, 0, 0}, "1.5")).verdict, Severity::kNone) << "there are gradients";
}

TEST(Story, AMeanThatStaysLostBesideFiniteLossesIsLostOnce) {
  std::string log;
  for (int step = 1; step <= 40; ++step) {
    log += fmt::format(
        "DLL 2024-01-01 10:00:{:02d}.0 - Training Epoch: 0 Training Iteration: {}  average_loss : {}  step_loss : "
        "2.5  learning_rate : 0.1 \n",
        step, step, step < 20 ? "2.5" : "nan");
  }
  const auto diagnosis = diagnose(log);
  const auto* found = find(diagnosis, "NonFiniteLoss");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->first_step, 20);
  EXPECT_EQ(found->last_step, 20);
}

TEST(Story, ARoundedScaleFallsByWholeOctaves) {
  std::string log;
  const char* const scales[] = {"1.0", "1.0", "0.5", "0.2", "0.1", "0.1"};  // 1, 1, 1/2, 1/4, 1/8, 1/16
  for (int i = 0; i < 6; ++i) log += fmt::format("step {} loss: 2.5 lr: 0.1 loss_scale: {}\n", (i + 1) * 100, scales[i]);
  const auto diagnosis = diagnose(log);
  EXPECT_EQ(diagnosis.facts.skipped, 3U);
  ASSERT_TRUE(diagnosis.facts.scale_last);
  EXPECT_EQ(*diagnosis.facts.scale_last, 0.125);
}

TEST(Story, HalvingsLineUponLineAreInARowThoughTheNextPlaceIsFar) {
  std::string log;
  for (int step = 400; step <= 2000; step += 400) log += fmt::format("Validation loss {}:  0.5  \n", step);
  for (double scale = 1024; scale >= 32; scale /= 2) log += overflow(0, scale);
  log += "Validation loss 2400:  0.5  \n";
  EXPECT_NE(find(diagnose(log), "ConsecutiveSkips"), nullptr);
}

TEST(Story, ARecordOfNothingButSkipsHoldsNoUpdate) {
  const auto diagnosis = diagnose("Exception: Skipped 60 iterations in a row due to Overflow - Exiting training.\n");
  EXPECT_EQ(diagnosis.facts.attempts, 60U);
  EXPECT_EQ(diagnosis.facts.skipped, 60U);
  EXPECT_EQ(diagnosis.facts.applied, 0U);
}

TEST(Story, ANormThatWasClippedHardCountsAndALittleDoesNot) {
  const std::string record =
      "2024-01-01 10:00:00,000 INFO [train.py:1] Epoch 1, batch 150, loss[loss=2.5, over 100.00 frames. ], tot_loss[loss=2.5, "
      "over "
      "900.00 frames. ], batch size: 60, lr: 2.40e-02, \n";
  const auto scaled = [](const char* factor) {
    return fmt::format("2024-01-01 10:00:01,000 WARNING [optim.py:1] Scaling gradients by {}, model_norm_threshold=900.5\n",
                       factor);
  };
  EXPECT_EQ(diagnose(record + scaled("0.02") + scaled("0.05")).verdict, Severity::kNone);
  EXPECT_NE(find(diagnose(record + scaled("1e-13") + scaled("0.0")), "GradNormSpike"), nullptr);
}

TEST(Story, ATensorThatDominatesAgainAndAgainIsNamed) {
  const auto lines = [](const char* share) {
    std::string out;
    for (int i = 0; i < 24; ++i)
      out += fmt::format("Parameter dominating tot_sumsq layers.3.w with proportion {}, where x=1\n", share);
    return out;
  };
  const auto diagnosis = diagnose(records(10, 300, 65536) + lines("0.75"));
  const auto* found = find(diagnosis, "DominantGradient");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->summary, testing::HasSubstr("layers.3.w"));
  EXPECT_EQ(find(diagnose(records(10, 300, 65536) + lines("0.5")), "DominantGradient"), nullptr);
}

TEST(Story, AResumeThatLostTheScalerSaysSo) {
  const std::string before = records(10, 1000, 1024);
  const auto lost = diagnose(before + "Resuming from checkpoint runs/checkpoint-900\n" + records(910, 1500, 65536));
  const auto* found = find(lost, "ScalePolicyMismatch");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->severity, Severity::kWarning);
  EXPECT_THAT(found->summary, testing::HasSubstr("not restored"));
  const auto kept = diagnose(before + "Resuming from checkpoint runs/checkpoint-900\n" + records(910, 1500, 1024));
  EXPECT_EQ(find(kept, "ScalePolicyMismatch"), nullptr);
}

TEST(Story, ScalersOfOneRunAreToldApart) {
  // Each loss has its own; one of them collapses.
  std::string log;
  for (int step = 10; step <= 400; step += 10) {
    log += fmt::format("step {} loss: {:.4f} lr: 0.0003\n", step, 2 + 1.0 / step);
    if (step == 10) log += overflow(0, 32768) + overflow(1, 32768);
  }
  for (double scale = 16384; scale > 0x1p-16; scale /= 2) log += overflow(1, scale);
  const auto diagnosis = diagnose(log);
  const auto* found = find(diagnosis, "ScaleCollapse");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->subject, "1");
  EXPECT_EQ(std::count_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                          [](const auto& finding) { return finding.rule == "ScaleCollapse"; }),
            1);
}

TEST(Story, LabelledRanksThatAgreeAreOneAndThoseThatDifferAreNamed) {
  const auto log = [](double off) {
    std::string out = records(10, 100, 65536);
    double scale = 65536;
    for (int skip = 0; skip < 8; ++skip) {
      scale /= 2;
      for (int rank = 0; rank < 4; ++rank) {
        out += overflow(0, rank == 3 ? scale * off : scale, fmt::format("[rank{}]: ", rank));
      }
      out += records(110 + 2500 * skip, 2500 + 2500 * skip, scale);
    }
    return out;
  };
  EXPECT_EQ(find(diagnose(log(1)), "RankDisagreement"), nullptr);
  const auto differ = diagnose(log(3));
  const auto* found = find(differ, "RankDisagreement");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->severity, Severity::kCritical);
  EXPECT_THAT(found->ranks, testing::Contains(3U));
}

TEST(Story, ARankWhoseRecordsHoldAnotherScaleIsNamed) {
  std::string log;
  for (int step = 1; step <= 10; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      log += fmt::format("[rank{}] step {} loss {:.4f} loss_scale {}\n", rank, step, 2.0 - 0.01 * step,
                         rank == 2 && step > 3 ? 32768 : 65536);
    }
  }
  const auto diagnosis = diagnose(log);
  const auto* found = find(diagnosis, "RankDisagreement");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->ranks, testing::Contains(2U));
}

TEST(Story, SkipsOfALogThatBeginsInTheMiddleAreNoSearch) {
  // Neither a scale nor any progress before; the first record says what it covers.
  std::string log;
  for (int i = 0; i < 7; ++i) {
    log += fmt::format(
        "[host] 2021-04-23 19:22:{:02d},000 (trainer:581) WARNING: The grad norm is nan. Skipping updating the model.\n",
        10 + i);
  }
  log +=
      "[host] 2021-04-23 19:22:20,000 (trainer:636) INFO: 2epoch:train:12001-12600batch: iter_time=3.1e-04, loss=65.1, "
      "acc=0.065, backward_time=0.08, optim0_lr0=1.4e-04, train_time=0.4\n";
  EXPECT_NE(find(diagnose(log), "ConsecutiveSkips"), nullptr);
}

TEST(Story, EpochsCountFromOneUnlessOneIsZero) {
  const auto first_bad = [](int first_epoch) {
    std::string log;
    for (int epoch = first_epoch; epoch < first_epoch + 2; ++epoch) {
      for (int step = 0; step < 100; step += 10) {
        log += fmt::format("Epoch {} step {}/100 loss={} lr=0.001\n", epoch, step,
                           epoch > first_epoch && step >= 50 ? "nan" : "2.5");
      }
    }
    const auto diagnosis = diagnose(log);
    return diagnosis.findings.empty() ? -1 : diagnosis.findings.front().first_step;
  };
  EXPECT_EQ(first_bad(0), first_bad(1));
}

TEST(Story, AFollowedLogTellsOfAFindingOnceItIsThere) {
  LogDoctor doctor;
  doctor.begin_file();
  doctor.feed(records(10, 300, 65536));
  doctor.pause();
  EXPECT_TRUE(doctor.take_news().empty());
  doctor.feed(collapse());
  doctor.pause();
  const auto news = doctor.take_news();
  EXPECT_TRUE(std::any_of(news.begin(), news.end(), [](const auto& finding) { return finding.rule == "ScaleCollapse"; }));
  doctor.pause();
  EXPECT_TRUE(doctor.take_news().empty());
}

TEST(Story, ABeginningIsJudgedByItsOwnReadingsHoweverFarTheLogWasRead) {
  const auto policies = [](std::size_t block) {
    std::string log;
    for (int i = 0; i < 50; ++i) log += overflow(0, std::ldexp(1.0, 60 - i));
    for (int i = 0; i < 200; ++i) {
      log += fmt::format("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}\n",
                         std::ldexp(1.0, 10 - i), std::ldexp(1.0, 9 - i));
    }
    std::vector<std::string> declared;
    LogDoctor doctor({}, {}, [&](const domain::Input& input) {
      const auto* digest = std::get_if<domain::AttemptDigest>(&input);
      if (digest == nullptr) return;
      for (const domain::ScalerInfo& scaler : digest->declared) declared.push_back(scaler.policy);
    });
    doctor.begin_file();
    for (std::size_t at = 0; at < log.size(); at += block) doctor.feed(std::string_view(log).substr(at, block));
    doctor.end_file();
    doctor.finish();
    return declared;
  };
  EXPECT_THAT(policies(1 << 20), testing::ElementsAre("apex_amp"));
  EXPECT_EQ(policies(100), policies(1 << 20));
}

// Sanitizers see the product that is no number.
TEST(Story, EpochsBeyondCountingAreNoPlaces) {
  std::string log;
  for (int i = 1; i <= 5; ++i) log += fmt::format("Epoch: [1e15][{}/9000000000000000] loss: 0.5{}\n", i, i);
  EXPECT_EQ(diagnose(log).facts.attempts, 5U);
}

TEST(Story, ATapSeesWhatTheDomainWasTold) {
  std::vector<std::size_t> kinds;
  bool declared = false;
  LogDoctor doctor({}, {}, [&](const domain::Input& input) {
    kinds.push_back(input.index());
    const auto* digest = std::get_if<domain::AttemptDigest>(&input);
    declared = declared || (digest != nullptr && !digest->declared.empty() && digest->declared[0].policy == "apex_amp");
  });
  read(doctor, records(10, 100, 65536) + overflow(0, 32768));
  doctor.finish();
  ASSERT_GT(kinds.size(), 4U);
  EXPECT_EQ(kinds[0], domain::Input(domain::SegmentOpened{}).index());
  EXPECT_EQ(kinds[1], domain::Input(domain::RankJoined{}).index());
  EXPECT_EQ(kinds.back(), domain::Input(domain::RankLeft{}).index());
  EXPECT_TRUE(declared);
}

}  // namespace
}  // namespace scalewatch::logimport
