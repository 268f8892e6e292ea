// Drives a rank's RankState record by record into a Driver's run: rules over tensors from the records up.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/domain/rank_state.h"
#include "tests/unit/domain/driver.h"

namespace scalewatch::domain {

// One record of a tensor at the attempt at hand. Defaults: a thousand elements of a healthy magnitude.
struct Shape {
  double absmax = 1;
  double rms = 0.1;
  std::uint64_t numel = 1000;
  std::uint64_t zero = 0;
  std::uint64_t subnormal = 0;
  std::uint64_t flushed = 0;
  std::uint64_t nan = 0;
  std::uint64_t pos_inf = 0;
  std::uint64_t neg_inf = 0;
  std::uint64_t over = 0;
  double high = -1;  // largest element; below 0: half of absmax
  std::vector<std::uint64_t> exponents{};
  std::int32_t first_exponent = 0;
};

class TensorDriver {
 public:
  struct Options {
    DriverOptions run{};
    DType target = DType::kFp16;
    std::vector<DType> state_dtypes{};
    std::optional<double> eps{};
  };
  TensorDriver() : TensorDriver(Options()) {}
  explicit TensorDriver(Options options);

  std::uint32_t add(const std::string& name, Role role, DType dtype = DType::kFp16, std::uint64_t numel = 1000);
  // One attempt in which the tensors of `shapes` were measured (by id) on rank 0, gradients under the scaler's scale. Of other
  // ranks `edit` says all.
  void attempt(const std::map<std::uint32_t, Shape>& shapes, bool skip = false, const Driver::Edit& edit = {});
  // Saves and loads both states, as a restart would.
  void restart();

  [[nodiscard]] const Finding* find(const std::string& rule) const { return run.find(rule); }
  [[nodiscard]] bool open(const std::string& rule) const { return run.open(rule); }

  Options options;
  Driver run;
  RankState rank;
  TensorTable table;
  bool unscaled = false;  // gradients are measured as unscaled

 private:
  RankJoined joined() const;
};

}  // namespace scalewatch::domain
