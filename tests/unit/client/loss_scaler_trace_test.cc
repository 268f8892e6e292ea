// LossScaler against what the real torch.amp.GradScaler did: tests/data/traces/make_pytorch.py says how the trace is written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <locale>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "scalewatch/loss_scaler.hpp"

namespace scalewatch::client_test {
namespace {

// As a checkpoint in a text file would hold it.
std::string to_text(const LossScalerState& state) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(std::numeric_limits<double>::max_digits10);
  out << state.scale << ' ' << state.growth_factor << ' ' << state.backoff_factor << ' ' << state.growth_interval << ' '
      << state.growth_tracker;
  return out.str();
}

LossScalerState from_text(const std::string& text) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  LossScalerState state;
  double scale = 0;
  in >> scale >> state.growth_factor >> state.backoff_factor >> state.growth_interval >> state.growth_tracker;
  state.scale = static_cast<float>(scale);
  return state;
}

struct Line {
  std::optional<float> gradients[2];
  std::string calls;
  std::string results;
  float scale = 0;
  std::uint64_t tracker = 0;
  std::optional<float> unscaled;
};

struct Sequence {
  LossScalerOptions options;
  std::vector<Line> lines;
};

std::vector<Sequence> read_trace() {
  std::ifstream file(SCALEWATCH_TEST_DATA "/traces/pytorch.csv");
  std::vector<Sequence> sequences;
  for (std::string text; std::getline(file, text);) {
    if (text.front() == '#') continue;
    std::vector<std::string> cells;
    std::istringstream row(text);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    const auto number = [&cells](std::size_t i) { return std::strtod(cells.at(i).c_str(), nullptr); };
    const auto maybe = [&](std::size_t i) {
      return cells.at(i) == "-" ? std::nullopt : std::optional(static_cast<float>(number(i)));
    };
    if (cells.at(0) == "sequence") {
      Sequence& sequence = sequences.emplace_back();
      sequence.options.init_scale = static_cast<float>(number(1));
      sequence.options.growth_factor = number(2);
      sequence.options.backoff_factor = number(3);
      sequence.options.growth_interval = static_cast<std::uint64_t>(number(4));
    } else {
      sequences.back().lines.push_back({{maybe(0), maybe(1)},
                                        cells.at(2),
                                        cells.at(3),
                                        static_cast<float>(number(4)),
                                        static_cast<std::uint64_t>(number(5)),
                                        maybe(6)});
    }
  }
  return sequences;
}

class Trainer {
 public:
  explicit Trainer(const LossScalerOptions& options) : scaler_(std::make_unique<LossScaler>(options)) { add_optimizers(); }

  void restore() {
    const LossScalerState state = from_text(to_text(scaler_->state()));
    scaler_ = std::make_unique<LossScaler>();
    scaler_->load_state(state);
    add_optimizers();
  }

  // Makes the calls of a line and returns their results, as the trace writes them.
  std::string iterate(const Line& line) {
    for (auto& gradient : gradients_) gradient.reset();
    std::string results;
    for (const char call : line.calls) {
      try {
        results += make(call, line);
      } catch (const std::logic_error&) {
        results += 'E';
      }
    }
    return results;
  }

  [[nodiscard]] const LossScaler& scaler() const { return *scaler_; }
  [[nodiscard]] const std::optional<float>& gradient() const { return gradients_[0]; }

 private:
  void add_optimizers() {
    for (const char* name : {"first", "second"}) scaler_->add_optimizer({name, "SGD"});
  }

  std::vector<GradientView> views(std::uint32_t optimizer) {
    if (!gradients_[optimizer]) return {};
    return {{&*gradients_[optimizer], 1}};
  }

  char make(char call, const Line& line) {
    switch (call) {
      case 'S': {
        const float upstream = scaler_->scale(1.0F);
        for (int i = 0; i < 2; ++i) {
          if (line.gradients[i]) gradients_[i] = gradients_[i].value_or(0) + upstream * *line.gradients[i];
        }
        return '.';
      }
      case 'u':
      case 'v':
        scaler_->unscale(call - 'u', views(call - 'u'));
        return '.';
      case 's':
      case 't': {
        bool ran = false;
        const auto optimizer = static_cast<std::uint32_t>(call - 's');
        const bool applied = scaler_->step(optimizer, views(optimizer), [&ran] { ran = true; });
        EXPECT_EQ(ran, applied);
        return applied ? 'a' : 'k';
      }
      case 'U':
        scaler_->update();
        return '.';
      case 'N':
        scaler_->update(1024.0F);
        return '.';
      default:
        restore();
        return '.';
    }
  }

  std::unique_ptr<LossScaler> scaler_;
  std::optional<float> gradients_[2];
};

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// restoring: go on with a new scaler, loaded from text, wherever a trainer would save a checkpoint.
void replay(const Sequence& sequence, bool restoring) {
  Trainer trainer(sequence.options);
  bool updated = true;
  for (const Line& line : sequence.lines) {
    if (restoring && updated && line.calls.front() == 'S') trainer.restore();
    ASSERT_EQ(trainer.iterate(line), line.results) << line.calls;
    ASSERT_EQ(trainer.scaler().get_scale(), line.scale) << line.calls;
    ASSERT_EQ(trainer.scaler().growth_tracker(), line.tracker) << line.calls;
    ASSERT_EQ(trainer.gradient().has_value(), line.unscaled.has_value()) << line.calls;
    if (line.unscaled) {
      ASSERT_TRUE(same(*trainer.gradient(), *line.unscaled)) << line.calls << ' ' << *trainer.gradient();
    }
    updated = (line.calls.back() == 'U' || line.calls.back() == 'N') && line.results.back() == '.';
  }
}

TEST(LossScalerTrace, DoesWhatPyTorchDid) {
  const auto sequences = read_trace();
  ASSERT_GE(sequences.size(), 200U);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    SCOPED_TRACE("sequence " + std::to_string(i));
    ASSERT_NO_FATAL_FAILURE(replay(sequences[i], false));
  }
}

TEST(LossScalerTrace, GoesOnFromEveryCheckpoint) {
  const auto sequences = read_trace();
  ASSERT_GE(sequences.size(), 200U);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    SCOPED_TRACE("sequence " + std::to_string(i));
    ASSERT_NO_FATAL_FAILURE(replay(sequences[i], true));
  }
}

}  // namespace
}  // namespace scalewatch::client_test
