// A checksum beside rows of numbers, so that what changed on disk is never taken for what was stored (see FORMAT.md, "Rows").
// Rows that older servers wrote have none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "server/history/sqlite.h"

namespace scalewatch::history {

// Columns of a row, in the order in which a query gives them to row_is_whole().
#define SCALEWATCH_REPORT_CHECKED \
  "run, stream, rank, seq, pos, segment, attempt, step, time_ms, retrospective, loss, lr, grad_norm, crc"
#define SCALEWATCH_SCALER_CHECKED \
  "run, segment, scaler, attempt, rank, step, time_ms, scale_before, scale_after, growth_tracker, outcome, loss, crc"

class RowCheck {
 public:
  void add(std::int64_t value) { put(1, static_cast<std::uint64_t>(value)); }
  void add(std::uint64_t value) { put(1, value); }
  void add(std::int32_t value) { add(static_cast<std::int64_t>(value)); }
  void add(std::uint32_t value) { add(static_cast<std::int64_t>(value)); }
  void add(bool value) { add(static_cast<std::int64_t>(value)); }
  void add(double value);
  template <class T>
  void add(const std::optional<T>& value) {
    value ? add(*value) : put(0, 0);
  }
  // As `crc` holds it.
  [[nodiscard]] std::int64_t sum() const;

 private:
  void put(std::uint8_t kind, std::uint64_t bits);

  static constexpr std::size_t kMaxColumns = 16;
  std::array<unsigned char, kMaxColumns * 9> bytes_;
  std::size_t size_ = 0;
};

template <class... Values>
std::int64_t row_check(const Values&... values) {
  RowCheck check;
  (check.add(values), ...);
  return check.sum();
}

// Of the checked columns that a query gives from `first` to its last one: are they as they were stored?
bool row_is_whole(const Query& query, int first);

}  // namespace scalewatch::history
