// What the real scalers did, step by step, is what the policies do: every file in tests/data/traces/*/.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/domain/policy.h"

namespace scalewatch::domain {
namespace {

namespace fs = std::filesystem;

struct TraceStep {
  bool found_inf = false;
  double scale_before = 0;
  bool skipped = false;
  double scale_after = 0;
  std::string note;
};

struct Trace {
  std::string policy;
  PolicyParameters parameters;
  std::vector<TraceStep> steps;
};

double value_of(const std::string& text) {
  if (text == "True") return 1;
  if (text == "False") return 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') throw std::runtime_error(std::string("not a number: ") + text);
  return value;
}

// A line without its end, which may be CRLF.
bool read_line(std::istream& in, std::string& line) {
  if (!std::getline(in, line)) return false;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

// `# policy key=value ...`, the header, then step,found_inf,scale_before,skipped,scale_after,note.
Trace read_trace(const fs::path& path) {
  std::ifstream file(path);
  Trace trace;
  std::string line;
  read_line(file, line);
  std::istringstream head(line);
  std::string word;
  head >> word >> trace.policy;
  while (head >> word) {
    const auto equals = word.find('=');
    trace.parameters[word.substr(0, equals)] = value_of(word.substr(equals + 1));
  }
  read_line(file, line);
  if (line != "step,found_inf,scale_before,skipped,scale_after,note") throw std::runtime_error("header");
  while (read_line(file, line)) {
    std::vector<std::string> fields;
    std::istringstream row(line);
    for (std::string field; std::getline(row, field, ',');) fields.push_back(field);
    if (fields.size() == 5) fields.emplace_back();
    if (fields.size() != 6) throw std::runtime_error(std::string("fields: ") + line);
    trace.steps.push_back(
        {value_of(fields[1]) > 0, value_of(fields[2]), value_of(fields[3]) != 0, value_of(fields[4]), fields[5]});
  }
  return trace;
}

std::vector<fs::path> traces() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(SCALEWATCH_TEST_DATA "/traces")) {
    if (entry.path().extension() == ".csv" && entry.path().parent_path().filename() != "traces") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The number after `name=` in a note; nullopt when it is not there.
std::optional<double> noted(const std::string& note, const std::string& name) {
  std::istringstream words(note);
  for (std::string word; words >> word;) {
    if (word.rfind(name + "=", 0) == 0) return value_of(word.substr(name.size() + 1));
  }
  return std::nullopt;
}

void expect_step(const TraceStep& step, Policy& policy) {
  EXPECT_EQ(policy.scale(), step.scale_before);
  const bool fatal = !policy.fatal().empty();
  const bool skipped = step.found_inf && policy.skips();
  EXPECT_EQ(skipped, step.skipped);
  EXPECT_EQ(policy.update(step.found_inf), step.scale_after);
  const bool raised = step.note.rfind("raises", 0) == 0;
  EXPECT_EQ(policy.ended(), raised);
  if (step.found_inf) {
    EXPECT_EQ(fatal, raised);
  }
  if (raised) return;
  const auto tracker = noted(step.note, "growth_tracker");
  if (tracker) {
    EXPECT_EQ(policy.growth_tracker(), *tracker);
  }
  for (const char* name : {"hysteresis", "hysteresis_tracker"}) {
    const auto left = noted(step.note, name);
    if (left) {
      EXPECT_EQ(policy.hysteresis_tracker(), *left);
    }
  }
}

TEST(PolicyTraces, EveryStepIsWhatTheRealScalerDid) {
  std::map<std::string, int> replayed;
  for (const auto& path : traces()) {
    const Trace trace = read_trace(path);
    const auto check = check_parameters(trace.policy, trace.parameters);
    ASSERT_TRUE(check.has_value()) << path;
    EXPECT_TRUE(check->unknown.empty() && check->refused.empty()) << path;
    const auto policy = make_policy(trace.policy, trace.parameters);
    for (std::size_t i = 0; i < trace.steps.size(); ++i) {
      SCOPED_TRACE(path.string() + ", step " + std::to_string(i));
      expect_step(trace.steps[i], *policy);
      if (testing::Test::HasFailure()) break;  // the rest would only repeat it
    }
    ++replayed[path.parent_path().filename()];
  }
  const std::map<std::string, int> all{
      {"deepspeed", 25},     {"fairseq", 20},   {"megatron", 15},   {"pytorch", 15},         {"flax", 15},
      {"jmp", 20},           {"keras2", 15},    {"keras3", 15},     {"optax", 15},           {"paddle", 15},
      {"paddle_static", 15}, {"mindspore", 16}, {"colossalai", 15}, {"deepspeed_fused", 15}, {"deepspeed_unfused", 15}};
  EXPECT_EQ(replayed, all);
}

}  // namespace
}  // namespace scalewatch::domain
