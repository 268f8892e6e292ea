#include "tests/unit/cli/harness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "server/cli/cli.h"
#include "tests/unit/cli/fake_data.h"

namespace scalewatch::cli {

Result run_command(const std::string& address, const std::vector<std::string>& arguments, const Around& around) {
  std::vector<const char*> argv{"scalewatch", "--server", address.c_str()};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  Result result;
  result.code = run(static_cast<int>(argv.size()), argv.data(),
                    {out, err, around.terminal, 80, kNow, around.interrupt, &std::cin, false});
  result.out = out.str();
  result.err = err.str();
  return result;
}

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(SCALEWATCH_TEST_DATA) + "/cli/" + name;
  if (std::getenv("SCALEWATCH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "If the change is meant: SCALEWATCH_UPDATE_GOLDEN=1, and read the difference.";
}

}  // namespace scalewatch::cli
