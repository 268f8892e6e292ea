// Exponent histograms as a server reads them.
#pragma once

#include <cstdint>
#include <map>

#include "scalewatch/v1/ingest.pb.h"

namespace scalewatch::client_test {

using Exponents = std::map<int, std::uint64_t>;              // elements by exponent; none that is 0
using FoundHistograms = std::map<std::uint32_t, Exponents>;  // by tensor

inline FoundHistograms histograms_of(const v1::Report& report) {
  FoundHistograms found;
  for (const v1::RecordBlock& block : report.blocks()) {
    for (const v1::ExponentHistogram& histogram : block.exponents()) {
      const std::uint32_t id =
          block.ids().empty() ? block.first_id() + histogram.index() : block.ids(static_cast<int>(histogram.index()));
      for (int i = 0; i < histogram.counts_size(); ++i) {
        if (histogram.counts(i) != 0) found[id][histogram.first_exponent() + i] += histogram.counts(i);
      }
    }
  }
  return found;
}

}  // namespace scalewatch::client_test
