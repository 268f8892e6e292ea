#include "server/alerting/sink_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalewatch::alerting {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

SinkConfig good() {
  SinkConfig config;
  config.name = "pager";
  config.type = "webhook";
  config.url = "https://pager.example.org/hook?team=a";
  config.headers = {{"Authorization", "Bearer x"}};
  return config;
}

TEST(SinkConfig, GoodOnesHaveNoFaults) {
  SinkConfig alertmanager = good();
  alertmanager.name = "am";
  alertmanager.type = "alertmanager";
  alertmanager.url = "http://[::1]:9093/prefix/";
  alertmanager.reminder_ms = 30'000;
  EXPECT_THAT(validate({good(), alertmanager}), IsEmpty());
}

TEST(SinkConfig, UnknownTypeListsKnownOnes) {
  SinkConfig config = good();
  config.type = "pigeon";
  EXPECT_THAT(validate({config}),
              ElementsAre(AllOf(HasSubstr("'pager'"), HasSubstr("'pigeon'"), HasSubstr("webhook"), HasSubstr("alertmanager"))));
}

TEST(SinkConfig, BadAddressesSayWhatIsExpected) {
  for (const char* url : {"", "pager:80/x", "ftp://pager/x", "http://", "http://a b/", "file:///etc/passwd"}) {
    SinkConfig config = good();
    config.url = url;
    EXPECT_THAT(validate({config}), ElementsAre(AllOf(HasSubstr("url "), HasSubstr("https://host:port/path")))) << url;
  }
  SinkConfig config = good();
  config.type = "alertmanager";
  EXPECT_THAT(validate({config}), ElementsAre(HasSubstr("base address")));
}

TEST(SinkConfig, DuplicateNamesAndLimits) {
  EXPECT_THAT(validate({good(), good()}), ElementsAre(HasSubstr("used twice")));
  SinkConfig config = good();
  config.timeout_ms = 0;
  EXPECT_THAT(validate({config}), ElementsAre(HasSubstr("timeout_ms must be")));
  config = good();
  config.reminder_ms = 60'000;
  EXPECT_THAT(validate({config}), ElementsAre(HasSubstr("sends no reminders")));
  config = good();
  config.name = "a\nb";
  EXPECT_THAT(validate({config}), ElementsAre(HasSubstr("name must be")));
  config = good();
  config.min_severity = domain::Severity::kNone;
  EXPECT_THAT(validate({config}), ElementsAre(HasSubstr("min_severity")));
  EXPECT_THAT(validate(std::vector<SinkConfig>(kMaxSinks + 1, good())), testing::Contains(HasSubstr("at most 32")));
}

TEST(SinkConfig, HeadersCannotSmuggleLinesAndSecretsAreNotRepeated) {
  SinkConfig config = good();
  config.headers = {{"Authorization", "secret\r\nX: y"}};
  EXPECT_THAT(validate({config}), ElementsAre(AllOf(HasSubstr("Authorization"), Not(HasSubstr("secret")))));
  config.headers = {{"Bad Name", "x"}};
  EXPECT_THAT(validate({config}), ElementsAre(HasSubstr("'Bad Name'")));
}

TEST(SinkConfig, SeveritiesByName) {
  EXPECT_EQ(parse_severity("critical"), domain::Severity::kCritical);
  EXPECT_EQ(parse_severity("Critical"), std::nullopt);
  EXPECT_EQ(parse_severity("none"), std::nullopt);
}

}  // namespace
}  // namespace scalewatch::alerting
