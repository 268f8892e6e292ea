#include "server/alerting/retry_policy.h"

#include <gtest/gtest.h>

#include <set>

namespace scalewatch::alerting {
namespace {

using What = Decision::What;
using std::chrono::milliseconds;

class RetryPolicyTest : public testing::Test {
 protected:
  RetryOptions options_;
  std::minstd_rand random_{1};
  Decision after(Verdict verdict, std::uint32_t tries, bool blocking = false,
                 std::optional<milliseconds> retry_after = std::nullopt) {
    return decide(options_, verdict, tries, blocking, retry_after, random_);
  }
};

TEST_F(RetryPolicyTest, BackoffIsSpreadBetweenItsBounds) {
  std::set<milliseconds::rep> delays;
  for (std::uint32_t tries = 1; tries < options_.unanswered_tries; ++tries) {
    const Decision decision = after(Verdict::kRetry, tries);
    ASSERT_EQ(decision.what, What::kAgain);
    ASSERT_GE(decision.delay, milliseconds(1000));
    ASSERT_LE(decision.delay, std::min(milliseconds(300'000), milliseconds(1000) * (1 << std::min(tries, 20U))));
    delays.insert(decision.delay.count());
  }
  EXPECT_GT(delays.size(), 1000U);
  EXPECT_GT(*delays.rbegin(), 250'000);
}

TEST_F(RetryPolicyTest, NoTryBeforeRetryAfter) {
  EXPECT_GE(after(Verdict::kRetry, 1, false, milliseconds(90'000)).delay, milliseconds(90'000));
}

TEST_F(RetryPolicyTest, GivesUpInTheEnd) {
  EXPECT_EQ(after(Verdict::kRetry, options_.unanswered_tries).what, What::kGiveUp);
  EXPECT_EQ(after(Verdict::kRejected, options_.rejected_tries - 1).what, What::kAgain);
  EXPECT_EQ(after(Verdict::kRejected, options_.rejected_tries).what, What::kGiveUp);
  EXPECT_EQ(after(Verdict::kRejected, options_.rejected_tries_blocking, true).what, What::kGiveUp);
  EXPECT_EQ(after(Verdict::kDelivered, 5000).what, What::kDelivered);
}

TEST(FailureText, IsOneBoundedPrintableLine) {
  HttpResponse response;
  response.error = "Could not connect";
  EXPECT_EQ(failure_text(response), "Could not connect");
  response.error.clear();
  response.status = 500;
  response.body = "no\r\nway \xff" + std::string(1000, 'x');
  EXPECT_EQ(failure_text(response).substr(0, 21), "HTTP 500: no  way ?xx");
  EXPECT_EQ(failure_text(response).size(), 300U);
  response.status = 302;
  EXPECT_NE(failure_text(response).find("redirects are not followed"), std::string::npos);
}

}  // namespace
}  // namespace scalewatch::alerting
