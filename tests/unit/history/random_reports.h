// Reports with everything in them, at random: several blocks, scales that change, non-finite tensors, gaps, scaler
// observations.
#pragma once

#include <cmath>
#include <random>

#include "tests/unit/history/fixtures.h"

namespace scalewatch::history {

inline v1::Report random_report(std::mt19937& random, std::uint64_t attempt, std::uint32_t tensors) {
  v1::Report report;
  report.set_seq(attempt);
  report.set_attempt(attempt);
  report.set_step(static_cast<std::int64_t>(attempt) * 3);
  report.set_loss(std::ldexp(static_cast<double>(random() % 1000), -8));
  report.mutable_client()->set_reports_sent(attempt);
  auto* scaler = report.add_scalers();
  scaler->set_scale_before(1024);
  scaler->set_growth_tracker(attempt % 7);
  const double scale = std::ldexp(1.0, 10 + static_cast<int>(attempt / 40 % 3));
  const auto fp16 = [&] { return std::ldexp(static_cast<float>(1 + random() % 2047), -static_cast<int>(random() % 14)); };
  // Gradients in one block; of the others a few, by id.
  for (int part = 0; part < 2; ++part) {
    if (part == 1 && random() % 3 == 0) continue;
    auto& block = *report.add_blocks();
    block.set_role(part == 0 ? v1::ROLE_GRADIENT : v1::ROLE_PARAMETER);
    block.set_measured_under_scale(part == 0 ? scale : 1);
    block.set_target(part == 0 ? v1::DTYPE_FP16 : v1::DTYPE_BF16);
    if (part == 1) block.set_micro_batches(2);
    const std::uint32_t half = tensors / 2;
    std::vector<std::uint32_t> ids;
    for (std::uint32_t id = part == 0 ? 0 : half; id < (part == 0 ? half : tensors); ++id) {
      if (part == 0 || random() % 4 != 0) ids.push_back(id);
    }
    block.set_count(static_cast<std::uint32_t>(ids.size()));
    bool subnormal = false;
    for (std::uint32_t i = 0; i < ids.size(); ++i) {
      if (part == 1) block.add_ids(ids[i]);
      const bool empty = random() % 50 == 0;
      block.add_min(empty ? std::nanf("") : -fp16());
      block.add_max(empty ? std::nanf("") : fp16());
      block.add_absmin_nonzero(empty ? std::nanf("") : fp16() / 1024);
      block.add_sum(empty ? 0 : static_cast<double>(static_cast<float>(random() % 100000) / 7 - 5000));
      block.add_sum_sq(empty ? 0 : static_cast<double>(static_cast<float>(random() % 100000) / 3));
      block.add_subnormal(random() % 5);
      subnormal = subnormal || block.subnormal(static_cast<int>(i)) > 0;
      const auto sparse = [&](auto* list) {
        if (random() % 90 != 0) return;
        auto* entry = list->Add();
        entry->set_index(i);
        entry->set_count(1 + random() % 3);
      };
      sparse(block.mutable_nan());
      sparse(block.mutable_pos_inf());
      sparse(block.mutable_over());
    }
    if (!subnormal) block.clear_subnormal();
    if (block.nan_size() > 0) {
      auto* bad = block.add_first_bad_micro();
      bad->set_index(block.nan(0).index());
      bad->set_micro(random() % 2);
    }
    if (attempt % 29 == 0 && !ids.empty()) {
      auto* bins = block.add_exponents();
      bins->set_index(0);
      bins->set_first_exponent(-3);
      bins->add_counts(9);
    }
  }
  return report;
}

}  // namespace scalewatch::history
