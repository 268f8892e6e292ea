// scalewatch-demo: trains a small model in real mixed precision and lets Scalewatch watch.
#include <getopt.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "deploy/demo/trainer.h"

namespace {

using scalewatch::Monitor;
using scalewatch::MonitorOptions;
using scalewatch::demo::Corpus;
using scalewatch::demo::RankGroup;
using scalewatch::demo::StepResult;
using scalewatch::demo::Trainer;
using scalewatch::demo::TrainerOptions;

volatile std::sig_atomic_t stop_asked = 0;

struct Arguments {
  TrainerOptions trainer;
  std::uint32_t ranks = 1;
  std::string run;
  std::string server;
  bool monitor = true;
  std::uint64_t progress = 50;
  std::chrono::milliseconds step_time{0};  // at least
  std::chrono::seconds wait{10};           // at the end, for a server that was there
};

constexpr const char* kHelp =
    R"(usage: scalewatch-demo [MODE] [options]

Trains a character-level language model (embedding, three residual ReLU layers, softmax) on the text of the GPL:
forward and backward in fp16, fp32 master weights, Adam, dynamic loss scaling. Scalewatch sees every tensor.

MODE
  healthy      learns; the loss scale grows and is turned back at the edge now and then (default)
  hot          a learning rate far too high: some layer overflows by itself
  nan-data     one batch in the middle holds a corrupted record
  no-update    scaler.update() is forgotten, and the scale stays where it began

  --steps N        attempts to make, at least 1 (default 400)
  --ranks N        processes side by side, gradients averaged in fp16, 1 to 64 (default 1)
  --batch N        samples of a rank and step, 1 to 4096 (default 64)
  --lr X           learning rate after warm-up (default 0.003; hot: 2)
  --init-scale X   first loss scale (default 2^15; no-update: 2^22)
  --growth-interval N  clean steps after which the scale doubles (default 100)
  --backoff X      what an overflow multiplies the scale by (default 0.5)
  --step-ms N      a step takes at least so long, as a larger model's does (default 0)
  --wait N         seconds that the end waits at most for a server that was there (default 10)
  --seed N         same seed, same numbers (default 1)
  --run NAME       name of the run (default demo-MODE)
  --server H:P     scalewatchd's gRPC address (default $SCALEWATCH_SERVER, else 127.0.0.1:7462)
  --no-monitor     train without Scalewatch
  --progress N     a line every N steps; 0 = only the last (default 50)
  --version        print the version and end
  --help
)";

template <class T>
T number(const char* option, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most)) {
    throw std::invalid_argument("--" + std::string(option) + " " + std::string(text) +
                                ": not a number in its range; see --help");
  }
  return value;
}

Arguments parse(int argc, char** argv) {
  enum Option : int {
    kSteps = 256,
    kRanks,
    kBatch,
    kLr,
    kInitScale,
    kGrowthInterval,
    kBackoff,
    kStepMs,
    kWait,
    kSeed,
    kRun,
    kServer,
    kNoMonitor,
    kProgress,
    kHelpAsked,
    kVersionAsked
  };
  constexpr std::array<option, 17> kOptions{{{"steps", required_argument, nullptr, kSteps},
                                             {"ranks", required_argument, nullptr, kRanks},
                                             {"batch", required_argument, nullptr, kBatch},
                                             {"lr", required_argument, nullptr, kLr},
                                             {"init-scale", required_argument, nullptr, kInitScale},
                                             {"growth-interval", required_argument, nullptr, kGrowthInterval},
                                             {"backoff", required_argument, nullptr, kBackoff},
                                             {"step-ms", required_argument, nullptr, kStepMs},
                                             {"wait", required_argument, nullptr, kWait},
                                             {"seed", required_argument, nullptr, kSeed},
                                             {"run", required_argument, nullptr, kRun},
                                             {"server", required_argument, nullptr, kServer},
                                             {"no-monitor", no_argument, nullptr, kNoMonitor},
                                             {"progress", required_argument, nullptr, kProgress},
                                             {"help", no_argument, nullptr, kHelpAsked},
                                             {"version", no_argument, nullptr, kVersionAsked},
                                             {nullptr, 0, nullptr, 0}}};
  Arguments arguments;
  TrainerOptions& trainer = arguments.trainer;
  for (int option = 0; (option = getopt_long(argc, argv, "", kOptions.data(), nullptr)) != -1;) {
    switch (option) {
      case kSteps:
        trainer.steps = number<std::uint64_t>("steps", optarg, 1, 1'000'000'000);
        break;
      case kRanks:
        arguments.ranks = number<std::uint32_t>("ranks", optarg, 1, 64);
        break;
      case kBatch:
        trainer.batch = number<std::size_t>("batch", optarg, 1, 4096);
        break;
      case kLr:
        trainer.lr = number<double>("lr", optarg, 0, 1e6);
        break;
      case kInitScale:
        trainer.init_scale = number<double>("init-scale", optarg, 0x1p-126, 0x1p126);
        break;
      case kStepMs:
        arguments.step_time = std::chrono::milliseconds(number<std::uint32_t>("step-ms", optarg, 0, 3'600'000));
        break;
      case kWait:
        arguments.wait = std::chrono::seconds(number<std::uint32_t>("wait", optarg, 0, 86'400));
        break;
      case kGrowthInterval:
        trainer.growth_interval = number<std::uint32_t>("growth-interval", optarg, 1, 1'000'000'000);
        break;
      case kBackoff:
        trainer.backoff = number<double>("backoff", optarg, 0x1p-30, 0.999);
        break;
      case kSeed:
        trainer.seed = number<std::uint64_t>("seed", optarg, 0, ~std::uint64_t{0});
        break;
      case kRun:
        arguments.run = optarg;
        break;
      case kServer:
        arguments.server = optarg;
        break;
      case kNoMonitor:
        arguments.monitor = false;
        break;
      case kProgress:
        arguments.progress = number<std::uint64_t>("progress", optarg, 0, ~std::uint64_t{0});
        break;
      case kHelpAsked:
        std::fputs(kHelp, stdout);
        std::exit(0);
      case kVersionAsked:
        std::printf("scalewatch-demo %s\n", scalewatch_version());
        std::exit(0);
      default:
        throw std::invalid_argument("see --help");
    }
  }
  if (optind < argc) {
    const auto mode = scalewatch::demo::parse_mode(argv[optind]);
    if (!mode)
      throw std::invalid_argument(std::string("unknown mode '") + argv[optind] + "': healthy, hot, nan-data or no-update");
    trainer.mode = *mode;
  }
  if (optind + 1 < argc) throw std::invalid_argument(std::string("unexpected argument '") + argv[optind + 1] + "'; see --help");
  if (arguments.run.empty()) arguments.run = "demo-" + std::string(scalewatch::demo::name_of(trainer.mode));
  return arguments;
}

std::unique_ptr<Monitor> open_monitor(const Arguments& arguments, std::uint32_t rank) {
  MonitorOptions options;
  options.run = arguments.run;
  options.server = arguments.server;
  options.rank = rank;
  options.world_size = arguments.ranks;
  options.labels = {{"trainer", "scalewatch-demo"}, {"mode", std::string(scalewatch::demo::name_of(arguments.trainer.mode))}};
  return std::make_unique<Monitor>(options);
}

// What the monitor delivered; said by rank 0 for itself.
void say_goodbye(Monitor& monitor, std::uint32_t rank, std::chrono::milliseconds wait) {
  // A server that was never reached is given a moment, one that was there has time to catch up.
  const bool durable = monitor.wait_durable(monitor.stats().connects == 0 ? 1'000 : wait.count());
  const scalewatch_stats stats = monitor.stats();
  if (rank == 0) {
    std::printf("scalewatch: %llu of %llu reports durable\n", static_cast<unsigned long long>(stats.durable_attempts),
                static_cast<unsigned long long>(stats.attempts));
  }
  if (!durable) {
    std::fprintf(stderr, "rank %u: not all reports reached the server (%s); the training itself is not affected\n", rank,
                 stats.last_fault[0] != '\0' ? stats.last_fault : "it did not answer in time");
  }
  // What did not come through by now won't in a moment more.
  monitor.close(durable ? wait.count() : 0, stop_asked != 0 ? "stopped by a signal" : "finished");
}

// printf shows the sign of a NaN, which means nothing.
double plain(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

int train(const Arguments& arguments, const Corpus& corpus, RankGroup& group, std::uint32_t rank) {
  const std::unique_ptr<Monitor> monitor = arguments.monitor ? open_monitor(arguments, rank) : nullptr;
  Trainer trainer(arguments.trainer, corpus, group, rank, monitor.get());
  std::uint64_t skipped = 0;
  double first_loss = 0;
  StepResult result;
  std::uint64_t step = 0;
  while (step < arguments.trainer.steps && !group.any(rank, stop_asked != 0)) {
    const auto next = std::chrono::steady_clock::now() + arguments.step_time;
    result = trainer.step(++step);
    std::this_thread::sleep_until(next);
    skipped += result.applied ? 0 : 1;
    if (step == 1) first_loss = result.loss;
    const bool due = arguments.progress != 0 && (step % arguments.progress == 0 || step == 1);
    if (rank == 0 && due) {
      std::printf("step %5llu  loss %8.4f  grad norm %9.3g  lr %-8.3g  scale %-10.6g  skipped %llu\n",
                  static_cast<unsigned long long>(step), plain(result.loss), plain(result.gradient_norm), result.lr,
                  result.scale_after, static_cast<unsigned long long>(skipped));
      std::fflush(stdout);
    }
  }
  if (rank == 0) {
    std::printf("%s after %llu attempts, %llu skipped: loss %.4f -> %.4f, scale %g\n",
                step == arguments.trainer.steps ? "done" : "stopped", static_cast<unsigned long long>(step),
                static_cast<unsigned long long>(skipped), first_loss, plain(result.loss), result.scale_after);
  }
  if (monitor != nullptr && step > 0) say_goodbye(*monitor, rank, arguments.wait);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    const Corpus corpus = Corpus::load(Corpus::kPath);
    struct sigaction action {};
    action.sa_handler = [](int) { stop_asked = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    RankGroup group(arguments.ranks, Trainer::gradient_elements(corpus));
    return scalewatch::demo::run_ranks(arguments.ranks,
                                       [&](std::uint32_t rank) { return train(arguments, corpus, group, rank); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalewatch-demo: %s\n", error.what());
    return 2;
  }
}
