// Nothing in the reader or the rules was taken from the test data: what stands in both is what a trainer's own code prints, or
// an ordinary number.
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "tests/unit/logimport/read_cases.h"

namespace scalewatch::logimport {
namespace {

namespace fs = std::filesystem;

const fs::path& root() {
  static const fs::path path = fs::path(SCALEWATCH_TEST_DATA).parent_path().parent_path();
  return path;
}

const std::string& all_logs() {
  static const std::string text = [] {
    std::string out;
    for (const auto& entry : fs::directory_iterator(root() / "tests/data/logs")) {
      if (entry.path().extension() == ".log") out += read_whole(entry.path());
    }
    return out;
  }();
  return text;
}

// Code without comments, by path below server/.
const std::map<std::string, std::string>& sources() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> out;
    for (const char* folder : {"server/logimport", "server/domain"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
        if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
        std::string code;
        std::istringstream in(read_whole(entry.path()));
        for (std::string line; std::getline(in, line);) {
          const std::size_t text = line.find_first_not_of(' ');
          if (text == std::string::npos || line.compare(text, 2, "//") == 0 || line[text] == '#') continue;
          const std::size_t comment = line.find("  //");
          code += line.substr(0, comment) + "\n";
        }
        out[fs::relative(entry.path(), root() / "server")] = std::move(code);
      }
    }
    return out;
  }();
  return all;
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) out.insert((*it)[0].str());
  return out;
}

// Powers of two, and numbers of at most two digits that count: thresholds and sizes.
bool is_ordinary(const std::string& number) {
  const double value = std::stod(number);
  int exponent = 0;
  if (value > 0 && std::frexp(value, &exponent) == 0.5) return true;
  std::string digits;
  for (const char c : number) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return digits.size() <= 2;
}

TEST(Literals, NoNumberOfTheLogs) {
  static const std::map<std::string, std::string> kExplained = {{"65504", "the largest finite fp16"}};
  const auto printed = matches(all_logs(), R"(\d[\d.]*\d)");
  for (const auto& [path, code] : sources()) {
    std::string plain = code;
    plain.erase(std::remove(plain.begin(), plain.end(), '\''), plain.end());
    for (const std::string& number : matches(plain, R"(\d[\d.]*\d)")) {
      const auto digits = std::count_if(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
      if (digits < 3 || !printed.contains(number) || is_ordinary(number) || kExplained.contains(number)) continue;
      ADD_FAILURE() << path << " holds " << number << ", a number of the test data";
    }
  }
}

// The literal parts of a template or key.
std::vector<std::string> parts(const std::string& literal) {
  std::vector<std::string> out;
  const std::regex hole(R"(\{[^}]*\}|\[\[|\]\]|\\[tn])");
  for (std::sregex_token_iterator it(literal.begin(), literal.end(), hole, -1), end; it != end; ++it) out.push_back(it->str());
  return out;
}

TEST(Literals, PhrasesOfTheLogsAreWhatTrainersPrint) {
  // Formats whose words are those of the trainer's printing code; scaler_policies.md lists most of them.
  static const std::set<std::string> kTrainers = {
      "apex",       "apex_legacy",     "colossalai",  "deepspeed",       "detectors",     "detectron2",
      "dllogger",   "dllogger_scaler", "fairseq",     "fairseq_records", "gpt_neox",      "hf_frames",
      "hf_trainer", "icefall",         "insightface", "megatron",        "metric_logger", "optimizer_overflow",
      "paddle",     "paddle_records",  "pytorch",     "skipped_updates", "swin",          "tacotron2",
      "yolact"};
  static const std::map<std::string, std::string> kExplained = {
      {"Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", "DeepSpeed raises it"},
      {"Minimum loss scale reached ({}). Your loss is probably exploding.", "fairseq raises it"}};
  for (const auto& [path, code] : sources()) {
    if (path.starts_with("logimport/formats/") && kTrainers.contains(fs::path(path).stem())) continue;
    for (const std::string& quoted : matches(code, R"("(?:[^"\\\n]|\\.)*")")) {
      if (kExplained.contains(quoted.substr(1, quoted.size() - 2))) continue;
      for (const std::string& part : parts(quoted.substr(1, quoted.size() - 2))) {
        const bool phrase = part.size() >= 12 && part.find(' ') != std::string::npos;
        EXPECT_FALSE(phrase && all_logs().find(part) != std::string::npos) << path << " holds \"" << part << "\"";
      }
    }
  }
}

// Names of models, tensors, files and people's projects.
TEST(Literals, NoNameOfTheLogs) {
  static const std::set<std::string> kTrainers = {"apex",       "tacotron2", "yolact",   "dle",         "deepspeed",
                                                  "colossalai", "fairseq",   "megatron", "icefall",     "insightface",
                                                  "swin",       "pytorch",   "hf",       "transformers"};
  std::set<std::string> names =
      matches(all_logs(), R"([A-Za-z_]+[A-Za-z0-9_]*\.(?:py|weight|bias)\b|[a-z]+(?:\.[A-Za-z0-9]+){2,})");
  for (const LogCase& one : read_cases("logs")) {
    const std::string project = one.id.substr(0, one.id.rfind('-'));
    if (!kTrainers.contains(project)) names.insert(project);
  }
  ASSERT_GT(names.size(), 20U);
  for (const auto& [path, code] : sources()) {
    for (const std::string& quoted : matches(code, R"("(?:[^"\\\n]|\\.)*")")) {
      for (const std::string& name : names) {
        EXPECT_EQ(quoted.find(name), std::string::npos) << path << " holds " << name << " in " << quoted;
      }
    }
  }
}

}  // namespace
}  // namespace scalewatch::logimport
