// CPU of all rules together, a record, on one thread: the fold of a rank's records on its stream, and the run's share of it
// (its digest and the closing of the attempt). A healthy run, one in which a tenth of the tensors is at fault, and one that
// skips.
//
// scalewatch_bench_domain [--json] [--tensors N] [--attempts N]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/rank_state.h"
#include "server/domain/run_state.h"

namespace scalewatch::domain {
namespace {

constexpr double kGoalNs = 450;
constexpr std::size_t kGoalBytes = 128;
constexpr int kVariants = 16;  // reports that take turns
constexpr int kRounds = 5;     // the median is reported

enum class Mood : std::uint8_t { kHealthy, kFaulty, kSkipping };
constexpr std::string_view kMoods[] = {"healthy", "tenth_at_fault", "tenth_skipped"};

struct Arguments {
  bool json = false;
  std::uint32_t tensors = 1000;
  std::uint32_t attempts = 2000;
};

// As a trainer with Adam has them: of five tensors a weight, its gradient, its second moment, an activation and its gradient.
std::shared_ptr<const TensorTable> make_table(std::uint32_t tensors) {
  constexpr Role kRoles[] = {Role::kParameter, Role::kGradient, Role::kOptimizerState, Role::kActivation,
                             Role::kActivationGradient};
  TensorTable table;
  for (std::uint32_t role = 0; role < 5; ++role) {
    for (std::uint32_t i = 0; i < tensors / 5; ++i) {
      TensorInfo info;
      info.name = "model.layers." + std::to_string(i) + ".attention.query.weight";
      if (kRoles[role] == Role::kOptimizerState) info.name += ".exp_avg_sq";
      info.role = kRoles[role];
      info.dtype = role == 0 || role == 2 ? DType::kFp32 : DType::kFp16;
      info.numel = 1 << 20;
      info.forward_index = i;
      info.optimizer = kRoles[role] == Role::kGradient ? "adam" : "";
      info.replica = kRoles[role] == Role::kParameter ? "dp" : "";
      table.push_back(std::move(info));
    }
  }
  return std::make_shared<const TensorTable>(std::move(table));
}

struct Block {
  std::vector<float> min, max, absmin;
  std::vector<double> sum, sum_sq;
  std::vector<std::uint64_t> zero, subnormal, flushed;
  RecordColumns columns;
};

// One report; spans point into `blocks`.
struct Report {
  std::vector<Block> blocks;
  std::vector<RecordColumns> columns;
};

Report make_report(const TensorTable& table, Mood mood, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Report report;
  const auto count = static_cast<std::uint32_t>(table.size() / 5);
  report.blocks.resize(5);
  for (std::uint32_t role = 0; role < 5; ++role) {
    Block& block = report.blocks[role];
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool fault = mood == Mood::kFaulty && i % 10 == 3;
      const double top = std::exp2(role == 1 || role == 4 ? 8 + 0.4 * normal(random) : 2 + 0.2 * normal(random));
      const double absmax = fault && role == 3 ? 50'000 : fault && role == 1 ? 0x1p-16 : top;
      block.min.push_back(static_cast<float>(-absmax));
      block.max.push_back(static_cast<float>(absmax * 0.9));
      block.absmin.push_back(static_cast<float>(absmax * 0x1p-20));
      block.sum.push_back(top);
      block.sum_sq.push_back(absmax * absmax * (1 << 14));
      block.zero.push_back(role == 3 ? 1 << 19 : 1000);
      block.subnormal.push_back(fault && role == 3 ? 1 << 17 : 20);
      block.flushed.push_back(0);
    }
    RecordColumns& columns = block.columns;
    columns.role = table[role * count].role;
    columns.measured_under_scale = role == 1 || role == 4 ? 65536 : 1;
    columns.target = DType::kFp16;
    columns.first_id = role * count;
    columns.count = count;
    columns.min = block.min;
    columns.max = block.max;
    columns.absmin_nonzero = block.absmin;
    columns.sum = block.sum;
    columns.sum_sq = block.sum_sq;
    columns.zero = block.zero;
    columns.subnormal = block.subnormal;
    columns.flushed = block.flushed;
    report.columns.push_back(columns);
  }
  return report;
}

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Cost {
  double rank = 0;  // ns a record
  double run = 0;
  double save = 0;  // ns a tensor
  std::size_t saved_bytes = 0;
  std::size_t findings = 0;
};

RankJoined make_joined() {
  RankJoined joined;
  joined.compute_dtype = DType::kFp16;
  joined.scalers = {{"default", "pytorch", {{"init_scale", 65536}}}};
  OptimizerInfo adam;
  adam.name = "adam";
  adam.lr = 1e-3;
  joined.optimizers = {adam};
  return joined;
}

Cost measure(Mood mood, const Arguments& arguments) {
  const auto table = make_table(arguments.tensors);
  std::mt19937_64 random(7);
  std::vector<Report> reports;
  for (int i = 0; i < kVariants; ++i) reports.push_back(make_report(*table, mood, random));
  RankState rank;
  rank.configure(make_joined(), {});
  RunState run;
  run.fold(SegmentOpened{1, 0});
  run.fold(make_joined());
  Cost cost;
  for (std::uint32_t attempt = 1; attempt <= arguments.attempts; ++attempt) {
    const bool skip = mood == Mood::kSkipping && attempt % 10 == 0;
    AttemptDigest digest;
    digest.attempt = attempt;
    digest.step = attempt;
    digest.table = table;
    digest.loss = 2 + 3.0 / attempt;
    digest.lr = 1e-3;
    ScalerObservation scaler;
    scaler.scale_before = 65536;
    scaler.scale_after = skip ? 32768 : 65536;
    scaler.optimizers.push_back({0, skip ? 1.0 : 0.0, skip ? 1.0 : 0.0, Outcome::kUnknown});
    digest.scalers.push_back(std::move(scaler));
    Report& report = reports[attempt % kVariants];
    report.columns[1].pos_inf.clear();
    if (skip) report.columns[1].pos_inf = {{3, 1}, {17, 2}};
    const double before = thread_ns();
    rank.fold(report.columns, digest);
    const double between = thread_ns();
    run.fold(digest);
    run.fold(AttemptClosed{attempt, {}, attempt});
    const double after = thread_ns();
    cost.rank += between - before;
    cost.run += after - between;
  }
  const double records = static_cast<double>(table->size()) * arguments.attempts;
  cost.rank /= records;
  cost.run /= records;
  const double before = thread_ns();
  cost.saved_bytes = rank.save().size() / table->size();
  cost.save = (thread_ns() - before) / static_cast<double>(table->size());
  cost.findings = run.view().open.size();
  return cost;
}

Cost median(Mood mood, const Arguments& arguments) {
  std::vector<Cost> costs;
  for (int i = 0; i < kRounds; ++i) costs.push_back(measure(mood, arguments));
  std::sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) { return a.rank + a.run < b.rank + b.run; });
  return costs[kRounds / 2];
}

void bench(const Arguments& arguments) {
  if (arguments.json) {
    std::printf(
        "{\"bench\":\"domain\",\"tensors\":%u,\"attempts\":%u,\"bytes_per_tensor\":%zu,\"goal_bytes\":%zu,\"goal_ns\":%.0f",
        arguments.tensors, arguments.attempts, RankState::kBytesPerTensor, kGoalBytes, kGoalNs);
  } else {
    std::printf("rules, %u tensors a report, %u attempts, thread time, median of %d\n", arguments.tensors, arguments.attempts,
                kRounds);
    std::printf("bytes a tensor   %zu (goal: at most %zu)\n", RankState::kBytesPerTensor, kGoalBytes);
    std::printf("%-20s %10s %10s %10s %6s %12s %9s\n", "ns a record", "rank", "run", "together", "goal", "save/tensor",
                "findings");
  }
  for (const Mood mood : {Mood::kHealthy, Mood::kFaulty, Mood::kSkipping}) {
    const Cost cost = median(mood, arguments);
    const std::string name(kMoods[static_cast<std::size_t>(mood)]);
    if (arguments.json) {
      std::printf(",\"%s\":{\"rank_ns\":%.1f,\"run_ns\":%.1f,\"save_ns\":%.1f,\"saved_bytes\":%zu,\"findings\":%zu}",
                  name.c_str(), cost.rank, cost.run, cost.save, cost.saved_bytes, cost.findings);
    } else {
      std::printf("%-20s %10.1f %10.1f %10.1f %6.0f %9.1f ns %9zu\n", name.c_str(), cost.rank, cost.run, cost.rank + cost.run,
                  kGoalNs, cost.save, cost.findings);
    }
  }
  if (arguments.json) std::printf("}\n");
}

}  // namespace
}  // namespace scalewatch::domain

int main(int argc, char** argv) {
  scalewatch::domain::Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const unsigned long value = i + 1 < argc ? std::strtoul(argv[i + 1], nullptr, 10) : 0;
    const bool numbered = (flag == "--tensors" && value >= 100 && value <= 1'000'000) ||
                          (flag == "--attempts" && value >= 1 && value <= 1'000'000);
    if (flag == "--json") {
      arguments.json = true;
    } else if (numbered) {
      (flag == "--tensors" ? arguments.tensors : arguments.attempts) = static_cast<std::uint32_t>(value);
      ++i;
    } else {
      std::fprintf(stderr, "usage: scalewatch_bench_domain [--json] [--tensors 100..1000000] [--attempts 1..1000000]\n");
      return 2;
    }
  }
  scalewatch::domain::bench(arguments);
  return 0;
}
