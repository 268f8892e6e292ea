// Rows that go to files: CSV with a header, or one JSON object a line. What CSV leaves empty, JSON has as null.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace scalewatch::cli {

// Absent, a count, a signed number, a number (NaN and infinities are "NaN", "Infinity", "-Infinity" in both forms), a text, a
// truth.
using Field = std::variant<std::monostate, std::uint64_t, std::int64_t, double, std::string, bool>;

inline Field field_of(std::optional<double> value) {
  return value ? Field(*value) : Field();
}

class RowWriter {
 public:
  RowWriter(std::ostream& out, std::vector<std::string_view> names, bool json_lines);
  // One field a name.
  void write(const std::vector<Field>& row);
  [[nodiscard]] std::uint64_t rows() const { return rows_; }

 private:
  std::ostream& out_;
  const std::vector<std::string_view> names_;
  const bool json_lines_;
  std::uint64_t rows_ = 0;
  std::string line_;
};

}  // namespace scalewatch::cli
