#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>

#include "tests/bench/support/load_source.h"

namespace scalewatch::bench {
namespace {

class Replayed final : public LoadSource {
 public:
  Replayed(const std::vector<CapturedRun>& runs, std::uint32_t tensors, std::uint32_t rank) {
    std::minstd_rand random(rank + 1);
    for (std::uint32_t left = tensors; left > 0;) {
      const auto number = static_cast<std::uint32_t>(demos_.size());
      const CapturedRun& run = runs[(number + rank) % runs.size()];
      // Lengths that differ by one each share no period before long.
      const std::size_t length = run.attempts.size() - number;
      if (run.attempts.size() < number + 2) throw std::runtime_error("too few attempts were captured for so many tensors");
      demos_.push_back({&run, length, random() % (2 * length - 2)});
      const auto take = std::min<std::uint32_t>(left, static_cast<std::uint32_t>(run.tensors.size()));
      for (std::uint32_t i = 0; i < take; ++i) tensors_.push_back({number, i, 0});
      left -= take;
    }
    const auto role = [this](const Tensor& t) { return demos_[t.demo].run->tensors[t.place].role; };
    std::stable_sort(tensors_.begin(), tensors_.end(), [&](const Tensor& a, const Tensor& b) { return role(a) < role(b); });
    for (const auto& one : runs.front().attempts.front()) scale_ = std::max(scale_, one.scale);
  }

  void declare(Monitor& monitor) override {
    for (Tensor& tensor : tensors_) {
      const CapturedTensor& captured = demos_[tensor.demo].run->tensors[tensor.place];
      TensorOptions options;
      options.name = "demo" + std::to_string(tensor.demo) + "." + captured.name;
      options.role = captured.role;
      options.dtype = captured.dtype;
      options.numel = captured.numel;
      options.forward_index = tensor.demo * 100 + captured.forward_index;
      tensor.id = monitor.add_tensor(options);
    }
  }
  void observe(Monitor& monitor) override {
    for (Demo& demo : demos_) {
      const std::size_t at = demo.at < demo.length ? demo.at : 2 * demo.length - 2 - demo.at;
      demo.now = demo.run->attempts[at].data();
      demo.at = (demo.at + 1) % (2 * demo.length - 2);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      // A trainer's numbers are at hand when it observes them; these lie in memory that nobody has looked at for long.
      if (i + kAhead < tensors_.size()) prefetch(record_of(tensors_[i + kAhead]));
      const Tensor& tensor = tensors_[i];
      const CapturedRecord& captured = record_of(tensor);
      scalewatch_observe_record(monitor.handle(), tensor.id, &captured.record, captured.scale, 0);
    }
  }
  [[nodiscard]] double scale() const override { return scale_; }

 private:
  struct Demo {
    const CapturedRun* run = nullptr;
    std::size_t length = 0;  // of its attempts, those that it goes through
    std::size_t at = 0;      // there and back
    const CapturedRecord* now = nullptr;
  };
  struct Tensor {
    std::uint32_t demo = 0;
    std::uint32_t place = 0;
    Monitor::TensorId id = 0;
  };
  static constexpr std::size_t kAhead = 12;

  [[nodiscard]] const CapturedRecord& record_of(const Tensor& tensor) const { return demos_[tensor.demo].now[tensor.place]; }
  static void prefetch(const CapturedRecord& record) {
    __builtin_prefetch(&record);
    __builtin_prefetch(reinterpret_cast<const char*>(&record + 1) - 1);
  }

  std::vector<Demo> demos_;
  std::vector<Tensor> tensors_;
  double scale_ = 1;
};

}  // namespace

std::unique_ptr<LoadSource> make_replayed_source(const std::vector<CapturedRun>& runs, std::uint32_t tensors,
                                                 std::uint32_t rank) {
  return std::make_unique<Replayed>(runs, tensors, rank);
}

}  // namespace scalewatch::bench
