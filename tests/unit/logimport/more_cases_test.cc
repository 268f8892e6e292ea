// More real reports: of other trainers, and of healthy runs that look ill.
#include "tests/unit/logimport/read_cases.h"

namespace scalewatch::logimport {
namespace {

TEST(MoreCases, EveryFailureIsFoundAndNoControlIsDisturbed) {
  const auto cases = read_cases("logs/more");
  ASSERT_GE(cases.size(), 40U);
  for (const LogCase& one : cases) {
    expect_verdict(one, one.log, "as it is");
    EXPECT_GE(diagnose_text(one.log).verdict, one.control ? domain::Severity::kNone : one.level) << one.id;
  }
}

TEST(MoreCases, AControlCutAnywhereStaysSilent) {
  for (const LogCase& one : read_cases("logs/more")) {
    if (!one.control) continue;
    for (std::size_t at = one.log.find('\n'); at != std::string::npos; at = one.log.find('\n', at + 1)) {
      expect_verdict(one, std::string_view(one.log).substr(0, at), "cut at byte " + std::to_string(at));
      expect_verdict(one, std::string_view(one.log).substr(at + 1), "from byte " + std::to_string(at));
    }
  }
}

}  // namespace
}  // namespace scalewatch::logimport
