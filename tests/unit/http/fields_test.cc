#include "server/http/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scalewatch/v1/alerts.pb.h"
#include "scalewatch/v1/history.pb.h"

namespace scalewatch::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Fields, SetsNumbersTextAndEnums) {
  v1::ListRunsRequest request;
  EXPECT_EQ(
      set_fields(request, {{"page_size", "7"}, {"name_contains", "a,b"}, {"min_severity", "Critical"}, {"status", "lost"}}),
      "");
  EXPECT_EQ(request.page_size(), 7);
  EXPECT_EQ(request.name_contains(), "a,b");
  EXPECT_EQ(request.min_severity(), v1::SEVERITY_CRITICAL);
  EXPECT_EQ(request.status(), v1::RUN_STATUS_LOST);
}

TEST(Fields, ReachesMessagesWithin) {
  v1::GetTensorHistoryRequest request;
  EXPECT_EQ(set_fields(request, {{"first", "18446744073709551615"}, {"segment", "2"}, {"rank", "0"}, {"role", "gradient"}}),
            "");
  EXPECT_EQ(request.range().first(), UINT64_MAX);
  EXPECT_EQ(request.range().segment(), 2u);
  EXPECT_TRUE(request.has_rank());
  EXPECT_EQ(request.role(), v1::ROLE_GRADIENT);
}

TEST(Fields, ShortEnumNamesAreNotConfused) {
  v1::TopTensorsRequest request;
  EXPECT_EQ(set_fields(request, {{"role", "activation_gradient"}, {"by", "non_finite"}}), "");
  EXPECT_EQ(request.role(), v1::ROLE_ACTIVATION_GRADIENT);
  EXPECT_EQ(request.by(), v1::TopTensorsRequest::BY_NON_FINITE);
  EXPECT_EQ(set_fields(request, {{"role", "ROLE_BUFFER"}}), "");
  EXPECT_EQ(request.role(), v1::ROLE_BUFFER);
}

TEST(Fields, RepeatedFieldsTakeListsAndRepeats) {
  v1::ListAlertsRequest request;
  EXPECT_EQ(set_fields(request, {{"states", "firing,acknowledged"}, {"states", "resolved"}}), "");
  EXPECT_THAT(request.states(), ElementsAre(v1::ALERT_STATE_FIRING, v1::ALERT_STATE_ACKNOWLEDGED, v1::ALERT_STATE_RESOLVED));
}

TEST(Fields, NamesWhatIsWrong) {
  v1::GetTensorHistoryRequest request;
  const auto error = [&](const char* name, const char* value) { return set_fields(request, {{name, value}}, {"run"}); };
  EXPECT_THAT(error("colour", "red"), HasSubstr("unknown parameter colour (known here: tensor, role, rank, segment, first"));
  EXPECT_THAT(error("range", "1"), HasSubstr("unknown parameter range"));
  EXPECT_THAT(error("run", "x"), HasSubstr("parameter run: already given in the path"));
  EXPECT_THAT(error("rank", ""), HasSubstr("parameter rank: expected a whole number from 0 to 4294967295, got \"\""));
  for (const char* bad : {"-1", "4294967296", "1.5", "0x10", "1 ", "+1", "one"})
    EXPECT_THAT(error("rank", bad), HasSubstr("rank"));
  EXPECT_THAT(error("role", "gradients"), HasSubstr("expected one of gradient, parameter, activation, activation_gradient"));
  EXPECT_THAT(set_fields(request, {{"last", "1"}, {"last", "2"}}), HasSubstr("parameter last: given twice"));
}

TEST(Fields, RefusesTextThatIsNoUtf8) {
  v1::GetRunRequest request;
  for (const char* bad : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_THAT(set_fields(request, {{"run", bad}}), HasSubstr("not valid UTF-8")) << bad;
  }
  EXPECT_EQ(set_fields(request, {{"run", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82"}}), "");
}

}  // namespace
}  // namespace scalewatch::http
