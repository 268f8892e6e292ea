#include "server/cli/views/record_text.h"

#include <fmt/format.h>

#include <cmath>

#include "server/cli/text/units.h"

namespace scalewatch::cli {

namespace {

// Under this, one growth of the scale is near to an overflow.
constexpr double kTightOctaves = 2;

}  // namespace

std::uint64_t infinities(const v1::Record& record) {
  return record.pos_inf() + record.neg_inf();
}

std::optional<double> underflow(const v1::Record& record) {
  const double non_zero = static_cast<double>(record.numel()) - static_cast<double>(record.nan()) -
                          static_cast<double>(infinities(record)) - static_cast<double>(record.zero());
  if (non_zero <= 0) return std::nullopt;
  return static_cast<double>(record.subnormal()) / non_zero;
}

double scale_of(const v1::Record& record) {
  const double scale = record.measured_under_scale();
  return std::isfinite(scale) && scale > 0 ? scale : 1;
}

double norm(const v1::Record& record) {
  return std::sqrt(record.sum_sq()) / scale_of(record);
}

std::optional<double> absmax(const v1::Record& record) {
  if (!record.has_absmax()) return std::nullopt;
  return record.absmax() / scale_of(record);
}

text::Cell absmax_cell(const v1::Record& record) {
  const auto largest = absmax(record);
  return {largest ? text::magnitude(*largest) : "-"};
}

void print_record_notes(bool scaled, const Screen& screen) {
  std::string notes =
      scaled ? "Magnitudes are unscaled (stored value / loss scale); HEADROOM is of the values as stored. " : "";
  notes +=
      "SUBNORM is the share of non-zero elements whose unscaled value is under the format's smallest normal, where precision "
      "is "
      "lost.";
  screen.say(notes, text::Style::kDim);
}

text::Cell headroom_cell(std::optional<double> octaves) {
  if (!octaves) return {"-"};
  const auto style = *octaves < 0               ? text::Style::kCritical
                     : *octaves < kTightOctaves ? text::Style::kWarning
                                                : text::Style::kPlain;
  return {std::isfinite(*octaves) ? fmt::format("{:.1f}", *octaves) : text::magnitude(*octaves), style};
}

text::Cell headroom_cell(const v1::Record& record) {
  return headroom_cell(record.has_headroom() ? std::optional<double>(record.headroom()) : std::nullopt);
}

text::Cell underflow_cell(const v1::Record& record) {
  const auto share = underflow(record);
  return {share ? text::percent(*share, 1) : "-"};
}

text::Cell bad_count_cell(std::uint64_t count) {
  return {text::count(count), count > 0 ? text::Style::kCritical : text::Style::kPlain};
}

std::string attempts_text(std::uint64_t first, std::uint64_t last) {
  return first >= last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

}  // namespace scalewatch::cli
