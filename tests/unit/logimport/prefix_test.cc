#include "server/logimport/prefix.h"

#include <gtest/gtest.h>

#include <string>

namespace scalewatch::logimport {
namespace {

Line parse(std::string_view text) {
  Line line;
  line.text = text;
  parse_prefix(line);
  return line;
}

constexpr std::int64_t kTime = 1682664689000;  // 2023-04-28 06:51:29

TEST(PrefixTest, TimesInTheirUsualForms) {
  for (const std::string_view text :
       {"2023-04-28 06:51:29 loss 1", "[2023-04-28 06:51:29,000] [INFO] loss 1", "2023-04-28T06:51:29Z loss 1",
        "2023-04-28T06:51:29.000+00:00 stdout F loss 1", "2023/04/28 06:51:29 loss 1", "[28/04/2023 06:51:29] loss 1",
        "1682664689 loss 1", "[1682664689.000] loss 1", "[2023-04-28 06:51:29 swin](main.py 185): INFO loss 1",
        "Training: 2023-04-28 06:51:29,000-loss 1", " 13%|#  | 3/27 [00:01<00:22, 1.1it/s][2023-04-28 06:51:29,000] loss 1",
        "DLL 2023-04-28 06:51:29.000000 - loss 1", "2023-04-28 06:51:29.000 | INFO     | __main__:train:12 - loss 1"}) {
    const Line line = parse(text);
    ASSERT_TRUE(line.time_ms) << text;
    EXPECT_EQ(*line.time_ms, kTime) << text;
  }
  EXPECT_EQ(*parse("2023-04-28 06:51:29,903 x").time_ms, kTime + 903);
  EXPECT_EQ(*parse("Nov 29 12:39:16 host x").time_ms - *parse("Nov 29 12:39:06 host x").time_ms, 10000);
  EXPECT_EQ(*parse("12:39:16 INFO x").time_ms, ((12 * 60 + 39) * 60 + 16) * 1000);
}

TEST(PrefixTest, NoTimeWhereThereIsNone) {
  for (const std::string_view text : {"loss 1 eta 20:18:47", "0%| | 1/184 [00:00:10<00:10:00, 2.0it/s]", "9999-99-99 99:99:99",
                                      "12345678901234 x", "iteration 1234567890", "2023-04-28"}) {
    EXPECT_FALSE(parse(text).time_ms) << text;
  }
}

TEST(PrefixTest, RanksOfLaunchersAndLoggers) {
  struct Case {
    std::string_view text;
    std::uint32_t rank;
  };
  for (const Case& c : {Case{"[rank3]: loss 1", 3}, Case{"[default7]:loss 1", 7}, Case{"[1,12]<stdout>:loss 1", 12},
                        Case{"[1,0]<stderr>: loss 1", 0}, Case{"5: loss 1", 5}, Case{" 0: loss 1", 0},
                        Case{"[pod/train-worker-4/pytorch] loss 1", 4}, Case{"my-train-job-2 pytorch loss 1", 2},
                        Case{"trainer-1  | loss 1", 1}, Case{"trainer_3 | [INFO] loss 1", 3},
                        Case{"2025-05-20 02:38:47,195 INFO [train.py:1056] (7/8) loss 1", 7},
                        Case{"[2021-01-26 22:04:09,190] [INFO] [logging.py:60:log_dist] [Rank 0] loss 1", 0},
                        Case{"[rank: 2] loss 1", 2}, Case{"rank=6 loss 1", 6}, Case{"Rank 1 | loss 1", 1}}) {
    const Line line = parse(c.text);
    ASSERT_TRUE(line.rank) << c.text;
    EXPECT_EQ(*line.rank, c.rank) << c.text;
    EXPECT_EQ(line.text.substr(line.body), "loss 1") << c.text;
  }
}

TEST(PrefixTest, NoRankWhereNobodySaysOne) {
  for (const std::string_view text :
       {"step-100 loss 1", "epoch-3 done", "gpt-neo-1 loss 0.5", "(3/100) loss 1", "[1,200,300] loss", "loss 1 rank 3",
        "ranking 5 loss", "Epoch | loss", "1234567: loss 1"}) {
    EXPECT_FALSE(parse(text).rank) << text;
  }
}

TEST(PrefixTest, NumbersInFrontAreRanksOnlyWhenTheyGoUpAndDown) {
  NumberedLines ranks;
  NumberedLines steps;
  for (int i = 0; i < 40; ++i) {
    ranks.note(std::to_string(i * 5 % 8) + ": loss 1");
    steps.note(std::to_string(i % 35 * 100) + ": loss 1");  // one restart
  }
  EXPECT_TRUE(ranks.are_ranks());
  EXPECT_FALSE(steps.are_ranks());
  Line line;
  line.text = "1200: loss 0.5";
  parse_prefix(line, false);
  EXPECT_FALSE(line.rank);
}

TEST(PrefixTest, BodyBeginsBehindThePrefix) {
  for (const std::string_view text :
       {"2020-08-01 12:39:16 | INFO | fairseq.trainer | body", "WARNING:root:body",
        "[2022-02-27 21:24:55,260][fairseq.trainer][INFO] - body", "2021-04-25 21:57:25,101 - mmdet - INFO - body",
        "[rank1]: 2023-04-28 06:51:29 body", "body", "INFO body"}) {
    const Line line = parse(text);
    EXPECT_EQ(line.text.substr(line.body), "body") << text;
  }
}

}  // namespace
}  // namespace scalewatch::logimport
