// Hugging Face's DebugUnderflowOverflow: the last forward frames, one row a tensor with its smallest and largest magnitude.
//   Detected inf/nan during batch_number=0
//   Last 21 forward frames:
//   abs min  abs max  metadata
//                     encoder.block.1.layer.1.DenseReluDense.wo Linear
//   4.80e-06 8.62e+00 weight
//   0.00e+00      inf output
#include <algorithm>
#include <cmath>

#include "server/logimport/formats/formats.h"
#include "server/logimport/number.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"abs min  abs max  metadata", "Detected inf/nan during batch_number="};
constexpr std::size_t kMaxNameBytes = 512;
constexpr std::size_t kMaxPrefixBytes = 64;
constexpr std::size_t kMaxStrangeRows = 8;  // other ranks' lines between the rows; after so many the dump is over

std::string_view skip_blanks(std::string_view text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  return text;
}

class HfFrames : public Format {
 public:
  std::string_view name() const override { return "hf_frames"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return open_; }

  void read(const Line& line, std::size_t at, std::size_t anchor, Readings& out) override {
    out.claim(at, line.text.size());
    if (anchor == 0) {
      open_ = true;
      strange_ = 0;
      module_.clear();
      prefix_ = line.text.substr(0, at <= kMaxPrefixBytes ? at : 0);
      return;
    }
    const auto number = parse_number(line.text.substr(at + kAnchors[1].size()));
    batch_ = number ? number->count() : std::nullopt;
  }

  void read_next(const Line& line, Readings& out) override {
    const std::string_view text = skip_blanks(line.text.substr(row_begin(line)));
    if (row(text, out)) {
      out.claim(0, line.text.size());
      strange_ = 0;
    } else if (frame(text)) {
      strange_ = 0;
    } else if (++strange_ > kMaxStrangeRows || text.starts_with("Traceback")) {
      open_ = false;
    }
  }

 private:
  // A launcher's prefix is no part of the row, but a number may look like one: only what stood before the headline too, or
  // holds a rank or a time, is taken off.
  std::size_t row_begin(const Line& line) const {
    if (!prefix_.empty() && line.text.starts_with(prefix_)) return prefix_.size();
    return line.rank || line.time_ms ? line.body : 0;
  }

  // "module.path ClassName", or "*** Starting batch number=1 ***" between dumps.
  bool frame(std::string_view text) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos || blank == 0 || blank > kMaxNameBytes) return text.find('=') != std::string_view::npos;
    const std::string_view type = skip_blanks(text.substr(blank));
    if (type.find(' ') != std::string_view::npos) return text.starts_with("***") || text.starts_with("not a tensor");
    module_ = text.substr(0, blank);
    return true;
  }

  // "4.80e-06 8.62e+00 weight"
  bool row(std::string_view text, Readings& out) {
    const auto smallest = parse_number(text);
    if (!smallest) return text.starts_with("None ") || text.starts_with("not a tensor");
    text = skip_blanks(text.substr(smallest->length));
    const auto largest = parse_number(text);
    if (!largest) return false;
    const std::string_view what = skip_blanks(text.substr(largest->length));
    if (what.empty() || what.size() > 64 || what.find(' ') != std::string_view::npos) return false;
    const bool bad = !std::isfinite(smallest->value) || !std::isfinite(largest->value);
    Reading& range = out.add(Reading::Kind::kModuleRange, 0);
    fill(range, what);
    range.abs_min = smallest->value;
    range.abs_max = largest->value;
    if (!bad) return true;
    Reading& found = out.add(Reading::Kind::kNonFinite, 1);
    fill(found, what);
    found.non_finite = std::isnan(smallest->value) || std::isnan(largest->value) ? "nan" : "inf";
    found.abs_max = largest->value;
    return true;
  }

  void fill(Reading& reading, std::string_view what) const {
    reading.step = batch_;
    reading.tensor = module_;
    if (!module_.empty()) reading.tensor += ' ';
    reading.tensor += what;
    reading.where = what.starts_with("input") ? "input" : what.starts_with("output") ? "forward" : "weights";
  }

  bool open_ = false;
  std::string prefix_;  // of the headline
  std::size_t strange_ = 0;
  std::string module_;
  std::optional<std::int64_t> batch_;
};

}  // namespace

std::unique_ptr<Format> make_hf_frames() {
  return std::make_unique<HfFrames>();
}

}  // namespace scalewatch::logimport
