// Each real log as another launcher, terminal or script would have written it: the verdict stays.
#include <functional>
#include <regex>
#include <set>

#include "tests/unit/logimport/read_cases.h"

namespace scalewatch::logimport {
namespace {

std::vector<std::string> lines_of(const std::string& log) {
  std::vector<std::string> lines;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string each_line(const std::string& log, const std::function<std::string(const std::string&)>& change) {
  std::string out;
  for (const std::string& line : lines_of(log)) out += change(line) + "\n";
  return out;
}

std::string with_prefix(const std::string& log, const std::string& prefix) {
  return each_line(log, [&](const std::string& line) { return prefix + line; });
}

// Every number behind what the pattern's first group matches, times a factor.
std::string times(const std::string& log, const std::string& names, double factor) {
  static const std::string kNumber = R"((\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))";
  const std::regex pattern("(" + names + ")" + kNumber, std::regex::icase);
  std::string out;
  auto at = log.cbegin();
  for (std::sregex_iterator it(log.begin(), log.end(), pattern), end; it != end; ++it) {
    out.append(at, (*it)[2].first);
    char number[40];
    std::snprintf(number, sizeof number, "%.12g", std::stod((*it)[2].str()) * factor);
    out += number;
    at = (*it)[2].second;
  }
  out.append(at, log.cend());
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

class Variants : public testing::TestWithParam<LogCase> {};

TEST_P(Variants, OtherLaunchers) {
  const LogCase& one = GetParam();
  for (const char* prefix : {"[rank0]: ", "[default0]:", "[1,0]<stdout>:", "[1,0]<stderr>: ", "0: ", "node3: ", "(pid=8123) ",
                             "trainer-worker-0 | ", "[pod/train-master-0/pytorch] ", "    "}) {
    expect_verdict(one, with_prefix(one.log, prefix), prefix);
  }
}

TEST_P(Variants, OtherTerminals) {
  const LogCase& one = GetParam();
  const auto coloured = [](const std::string& line) { return "\x1b[1;36m" + line + "\x1b[0m\x1b[K"; };
  expect_verdict(one, each_line(one.log, coloured), "coloured");
  expect_verdict(one, replaced(one.log, "\n", "\r\n"), "CRLF");
  const auto redrawn = [](const std::string& line) {
    return "Loading shards:  50%|##5  | 5/10 [00:01<00:01,  5.00it/s]\r" + line;
  };
  expect_verdict(one, each_line(one.log, redrawn), "behind a redrawn bar");
  expect_verdict(one, replaced(one.log, "\nGradient overflow.", "Gradient overflow."), "glued to the line before");
  expect_verdict(one, "\xEF\xBB\xBF" + one.log, "with a byte order mark");
  expect_verdict(one, replaced(one.log, "\n", "\n\n"), "with empty lines");
}

TEST_P(Variants, OtherNumbers) {
  const LogCase& one = GetParam();
  expect_verdict(one, times(one.log, R"(\bloss['"]?\s*[:= ]\s*)", 3), "losses times 3");
  expect_verdict(one, times(one.log, R"((?:learning_rate|LearningRate|\blr)['"]?\s*[:= ]\s*)", 0.5), "half the learning rate");
  expect_verdict(one, times(one.log, R"(Epoch:? )", 3), "other epochs");
  expect_verdict(one, replaced(replaced(one.log, "Rank 0 ", "Rank 5 "), "(7/8)", "(2/8)"), "other ranks");
  // Half and twice the scale mean the same wherever no limit of a scaler's own stands at what was printed.
  static const std::set<std::string> kAtALimit = {"ScaleAtMinimum", "ScaleVanished", "ScaleCollapse"};
  const bool limited =
      std::any_of(one.any_of.begin(), one.any_of.end(), [](const auto& rule) { return kAtALimit.contains(rule); });
  if (limited) return;
  const std::string names =
      R"((?:loss scale to:? |loss scale of |loss scale: |reducing to |scale from |loss_scale[=: ]+|PARAMETER loss_scale : ))";
  expect_verdict(one, times(one.log, names, 2), "scales times 2");
}

TEST_P(Variants, InterleavedRanks) {
  const LogCase& one = GetParam();
  std::string both;
  for (const std::string& line : lines_of(one.log)) both += "[rank0]: " + line + "\n[rank1]: " + line + "\n";
  expect_verdict(one, both, "two labelled ranks");
  const auto lines = lines_of(one.log);
  std::string late;  // rank 1 is one line behind
  for (std::size_t i = 0; i <= lines.size(); ++i) {
    if (i < lines.size()) late += "[rank0]: " + lines[i] + "\n";
    if (i > 0) late += "[rank1]: " + lines[i - 1] + "\n";
  }
  expect_verdict(one, late, "two labelled ranks, one behind");
}

TEST_P(Variants, OtherNames) {
  const LogCase& one = GetParam();
  std::string log = replaced(replaced(one.log, "grad_norm", "gradient_norm"), "learning_rate", "lr");
  expect_verdict(one, log, "gradient_norm and lr");
  log = replaced(replaced(log, "'loss'", "'train_loss'"), "\"loss\"", "\"train_loss\"");
  expect_verdict(one, log, "train_loss");
}

std::string name_of(const testing::TestParamInfo<LogCase>& test) {
  std::string name = test.param.id;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Logs, Variants, testing::ValuesIn(read_cases("logs")), name_of);

}  // namespace
}  // namespace scalewatch::logimport
