// The trainer's thread with the server away (the client buffers, thins and drops), and packing on one core.
#include <chrono>
#include <vector>

#include "client_lib/src/pack.h"
#include "tests/bench/client/parts.h"
#include "tests/bench/client/trainer.h"

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 400;

double pack_records_per_s() {
  client::Sheet sheet(Trainer::kTensors);
  for (std::uint32_t i = 0; i < Trainer::kTensors; ++i) {
    sheet[i].id = i;
    sheet[i].role = Role::kGradient;
    sheet[i].target = DType::kFp16;
    sheet[i].micro_batches = 1;
    sheet[i].table_numel = sheet[i].record.numel = Trainer::kNumel;
    sheet[i].record.subnormal = i;
  }
  client::Attempt attempt;
  attempt.sheet = &sheet;
  client::ReportPacker packer;
  Samples rounds;
  std::size_t bytes = 0;
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const std::uint64_t begin = ticks();
    for (int i = 0; i < 10; ++i) bytes += packer.pack(attempt, round, {}, {}).size();
    rounds.add(ticks() - begin);
  }
  return bytes == 0 ? 0 : 10 * Trainer::kTensors / rounds.quantile_ns(0.5) * 1e9;
}

}  // namespace

void bench_cost(Figures& figures) {
  Trainer trainer("127.0.0.1:1");
  // Between attempts the trainer is busy for longer than what is measured here, and the client's thread works meanwhile.
  const auto spin = [] {
    for (const auto end = std::chrono::steady_clock::now() + 10ms; std::chrono::steady_clock::now() < end;) {
    }
  };
  std::vector<float> weights(8 << 20, 1.0F);
  const auto sweep = [&weights] {  // 32 MB, so that the caches hold nothing else
    for (float& weight : weights) weight *= 1.0001F;
  };
  Samples observe;
  Samples measured;
  Samples end;
  observe.reserve(kRounds * Trainer::kTensors);
  measured.reserve(kRounds * Trainer::kTensors);
  for (int round = 0; round < kRounds; ++round) {
    trainer.attempt(&observe, &end);
    spin();
    trainer.measured_attempt(measured);
    spin();
  }
  Samples whole;
  Samples first;
  for (int round = 0; round < kRounds; ++round) {
    sweep();
    const std::uint64_t begin = ticks();
    trainer.attempt();
    whole.add(ticks() - begin);
    sweep();
    first.add(trainer.first_observation());
  }
  figures.push_back({"observe_p50_ns", "observe, statistics given, p50", observe.quantile_ns(0.5), "ns", "50 ns"});
  figures.push_back({"observe_p999_ns", "observe, statistics given, p99.9", observe.quantile_ns(0.999), "ns", "1000 ns"});
  figures.push_back({"observe_64_p50_ns", "observe 64 floats in memory, p50", measured.quantile_ns(0.5), "ns", ""});
  figures.push_back({"observe_64_p999_ns", "observe 64 floats in memory, p99.9", measured.quantile_ns(0.999), "ns", ""});
  figures.push_back(
      {"observe_cold_ns", "first observe of an attempt after 32 MB of other work, p50", first.quantile_ns(0.5), "ns", ""});
  figures.push_back({"end_attempt_p50_us", "end_attempt, 1,000 tensors, p50", end.quantile_ns(0.5) / 1e3, "us", "20 us"});
  figures.push_back({"end_attempt_p99_us", "end_attempt, 1,000 tensors, p99", end.quantile_ns(0.99) / 1e3, "us", "20 us"});
  figures.push_back({"attempt_cold_us", "a whole attempt of 1,000 tensors after 32 MB of other work, p50",
                     whole.quantile_ns(0.5) / 1e3, "us", ""});
  const scalewatch_stats stats = trainer.monitor().stats();
  figures.push_back({"own_count_us", "the same as the client counts it itself, mean",
                     static_cast<double>(stats.trainer_thread_ns) / static_cast<double>(stats.attempts) / 1e3, "us", ""});
  trainer.monitor().close(0);
  figures.push_back({"pack_records_per_s", "packing on one core", pack_records_per_s(), "rec/s", "2000000 rec/s"});
}

}  // namespace scalewatch::bench
