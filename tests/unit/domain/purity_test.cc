// The domain does no I/O and owns no clock, thread or chance: its includes say so, and its words.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// What can neither wait, ask the outside world, nor depend on where memory lies. The unordered containers are not here: the
// order that they are walked in need not survive a restart.
const std::set<std::string> kPureHeaders{
    "algorithm",   "array",   "bit",         "charconv",   "cctype",           "cmath",    "compare", "concepts",  "cstddef",
    "cstdint",     "cstring", "deque",       "functional", "initializer_list", "iterator", "limits",  "map",       "memory",
    "new",         "numbers", "numeric",     "optional",   "ranges",           "set",      "span",    "stdexcept", "string",
    "string_view", "tuple",   "type_traits", "utility",    "variant",          "vector"};
const std::set<std::string> kPureLibraries{"boost/container/small_vector.hpp"};
// The words of findings; in .cc files only.
const std::set<std::string> kFormatHeaders{"fmt/core.h", "fmt/format.h"};

// Names that no include needs to give away.
const std::regex kImpure(
    R"(\bstd::(chrono|thread|jthread|mutex|atomic|condition_variable|filesystem|random_device|getenv|rand|time|clock|cout|cerr)\b)"
    R"(|\bstd::(unordered_\w+|hash|locale|setlocale|stod|stof|strtod)\b|(^|[^.>\w:])(time|clock|rand|getenv|printf|fopen)\s*\()"
    R"(|\b(system_clock|steady_clock|thread_local|volatile|__DATE__|__TIME__)\b)");

std::string without_comments_and_strings(const std::string& text) {
  static const std::regex kNoise(R"(//[^\n]*|"(?:\\.|[^"\\\n])*")");
  return std::regex_replace(text, kNoise, "");
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Include {
  bool system = false;
  std::string name;
};
std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kInclude(R"((?:^|\n)\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  for (std::sregex_iterator at(text.begin(), text.end(), kInclude), end; at != end; ++at) {
    includes.push_back({(*at)[1] == "<", (*at)[2]});
  }
  return includes;
}

// The domain's own files, and whatever they include in turn.
class Walk {
 public:
  explicit Walk(fs::path root) : root_(std::move(root)) {
    for (const auto& entry : fs::recursive_directory_iterator(root_ / "server/domain")) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".cc") visit(entry.path().lexically_relative(root_).generic_string());
    }
  }
  [[nodiscard]] const std::set<std::string>& files() const { return files_; }

 private:
  void visit(const std::string& file) {
    if (!files_.insert(file).second) return;
    const std::string text = read(root_ / file);
    EXPECT_FALSE(text.empty()) << file << " can't be read";
    for (const Include& include : includes_of(text)) {
      if (include.system) {
        const bool words = kFormatHeaders.contains(include.name) && file.ends_with(".cc");
        const bool pure = kPureHeaders.contains(include.name) || kPureLibraries.contains(include.name);
        EXPECT_TRUE(words || pure) << file << " includes <" << include.name << ">";
      } else if (include.name.starts_with("server/domain/") || include.name.starts_with("cuda/record/")) {
        visit(include.name);
      } else {
        ADD_FAILURE() << file << " includes " << include.name;
      }
    }
    const std::string code = without_comments_and_strings(text);
    std::smatch match;
    EXPECT_FALSE(std::regex_search(code, match, kImpure)) << file << " says " << match.str();
  }

  fs::path root_;
  std::set<std::string> files_;
};

TEST(Purity, TheDomainAndAllThatItIncludesArePure) {
  const Walk walk{fs::path(SCALEWATCH_DOMAIN_SOURCES).parent_path().parent_path()};
  EXPECT_GT(walk.files().size(), 60u);
  EXPECT_TRUE(walk.files().contains("cuda/record/record.h"));  // it did follow
}

TEST(Purity, ImpureWordsAreKnown) {
  for (const char* bad : {"auto t = std::chrono::seconds(1);", "x = time(nullptr);", "std::unordered_map<int, int> m;",
                          "thread_local int n;", "int r = rand() % 3;"}) {
    EXPECT_TRUE(std::regex_search(std::string(bad), kImpure)) << bad;
  }
  for (const char* good : {"finding.first_time = now_;", "options.time(3);", "uptime(2);", "std::map<int, int> rand_map;"}) {
    EXPECT_FALSE(std::regex_search(std::string(good), kImpure)) << good;
  }
}

}  // namespace
