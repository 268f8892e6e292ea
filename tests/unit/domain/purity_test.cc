// The domain does no I/O, owns no clock and no thread: its includes say so.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace {

TEST(Purity, IncludesOnlyWhatIsPure) {
  const std::set<std::string> allowed{"algorithm", "array",   "bit",       "cmath",     "cstddef",     "cstdint", "cstring",
                                      "deque",     "limits",  "map",       "memory",    "iterator",    "numeric", "optional",
                                      "set",       "span",    "stdexcept", "string",    "string_view", "tuple",   "type_traits",
                                      "utility",   "variant", "vector",    "fmt/core.h"};
  const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SCALEWATCH_DOMAIN_SOURCES)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") continue;
    ++files;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string name = match[2];
      if (match[1] == "<") {
        EXPECT_TRUE(allowed.contains(name)) << entry.path() << " includes <" << name << ">";
      } else {
        EXPECT_TRUE(name.starts_with("server/domain/") || name.starts_with("cuda/record/"))
            << entry.path() << " includes " << name;
      }
    }
  }
  EXPECT_GT(files, 40);
}

}  // namespace
