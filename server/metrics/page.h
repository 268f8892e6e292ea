// Writes the text exposition format, family by family, in the order of the catalogue. A page of a thousand runs is tens of
// thousands of lines, so lines are written once, where they belong. Not thread-safe: one scrape owns one.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/metrics/catalog.h"

namespace scalewatch::metrics {

class Page {
 public:
  // `values` of the labels in the catalogue's order.
  void add(Id id, std::initializer_list<std::string_view> values, double value);
  // Of a metric with "label_*": `more` are names, without that prefix, and values.
  void add(Id id, std::initializer_list<std::string_view> values, std::span<const std::pair<std::string, std::string>> more,
           double value);
  // `counts` of each bucket alone, one more than there are bounds.
  void add_histogram(Id id, std::initializer_list<std::string_view> values, std::span<const double> bounds,
                     std::span<const std::uint64_t> counts, double sum);
  // Families without a line are left out.
  [[nodiscard]] std::string take();

 private:
  std::array<std::string, static_cast<std::size_t>(Id::kCount)> bodies_;
};

}  // namespace scalewatch::metrics
