// logimport_dump [-q] FILE...: what the reader makes of logs, one JSON object a reading; then a summary, which is all with -q.
// For people who add a format.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "server/logimport/reader.h"

namespace {

using scalewatch::logimport::Reading;
using Span = Reading::Span;

nlohmann::json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

class Print final : public scalewatch::logimport::ReadingSink {
 public:
  explicit Print(bool quiet) : quiet_(quiet) {}

  void take(const Reading& r) override {
    if (quiet_) return;
    static constexpr const char* kKinds[] = {"record",     "progress",     "skip",   "held_skip", "growth",    "scale",
                                             "non_finite", "ranks_differ", "misuse", "fatal",     "run_start", "checkpoint",
                                             "end",        "module_range", "norm",   "dominates"};
    static constexpr const char* kSpans[] = {"", "step", "interval", "total"};
    nlohmann::ordered_json out;
    out["line"] = r.line;
    out["format"] = r.format;
    out["kind"] = kKinds[static_cast<int>(r.kind)];
    const auto put = [&out](const char* name, const auto& value) {
      if (value) out[name] = number(static_cast<double>(*value));
    };
    put("rank", r.rank);
    put("scaler", r.scaler);
    put("step", r.step);
    put("steps_total", r.steps_total);
    put("epoch", r.epoch);
    put("batch", r.batch);
    put("batches", r.batches_per_epoch);
    put("attempts", r.attempts_per_record);
    put("scale_before", r.scale_before);
    put("scale_after", r.scale_after);
    put("scale", r.scale);
    if (r.scale_quantum != 0) out["quantum"] = r.scale_quantum;
    put("skipped", r.skipped);
    put("nan_skipped", r.nan_skipped);
    put("loss", r.loss);
    if (r.loss_span != Span::kUnknown) out["loss_span"] = kSpans[static_cast<int>(r.loss_span)];
    put("loss_now", r.loss_now);
    put("loss_part", r.loss_part);
    put("valid_loss", r.valid_loss);
    put("grad_norm", r.grad_norm);
    put("lr", r.lr);
    put("accuracy", r.accuracy);
    if (!r.tensor.empty()) out["tensor"] = r.tensor;
    if (!r.detail.empty()) out["detail"] = r.detail;
    std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }

 private:
  bool quiet_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool quiet = argc > 1 && std::string_view(argv[1]) == "-q";
  for (int i = quiet ? 2 : 1; i < argc; ++i) {
    Print print(quiet);
    scalewatch::logimport::LogReader reader(print);
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::cerr << "can't open " << argv[i] << '\n';
      return 1;
    }
    reader.begin_file(0);
    std::vector<char> buffer(1 << 16);
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
      reader.feed({buffer.data(), static_cast<std::size_t>(file.gcount())});
    }
    reader.end_file();
    const auto summary = reader.summary();
    std::cerr << argv[i] << ": " << (summary.format.empty() ? "nothing" : summary.format) << ", " << summary.readings
              << " readings of " << summary.lines << " lines\n";
  }
  return 0;
}
