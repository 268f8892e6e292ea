#include "server/cli/html/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "server/cli/text/units.h"
#include "server/names/escape.h"

namespace scalewatch::cli::html {

namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 190;
constexpr double kLeft = 64;
constexpr double kRight = 12;
constexpr double kTop = 26;
constexpr double kBottom = 34;
constexpr int kMaxMarks = 800;  // of a kind; those beyond share a pixel with another anyway

class Painter {
 public:
  explicit Painter(const Plot& plot) : plot_(plot) {
    bool any = false;
    for (const auto& point : plot.points) {
      for (const auto& end : {point.low, point.high}) {
        const auto value = place(end);
        if (!value) continue;
        low_ = any ? std::min(low_, *value) : *value;
        high_ = any ? std::max(high_, *value) : *value;
        any = true;
      }
    }
    if (low_ == high_) {
      const double pad = plot.axis == Axis::kLinear ? std::max(1e-12, std::abs(low_) * 0.1) : 1;
      low_ -= pad;
      high_ += pad;
    }
    empty_ = !any;
  }

  std::string paint() {
    out_ = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight,
                       escape(plot_.title));
    out_ += fmt::format("<text class=\"t\" x=\"{:.0f}\" y=\"14\">{}</text>\n", kLeft, escape(plot_.title));
    axes();
    if (!empty_) {
      envelope();
      line();
    }
    marks();
    return out_ + "</svg>\n";
  }

 private:
  // Where a value stands on the axis; absent when it has no place there.
  [[nodiscard]] std::optional<double> place(std::optional<double> value) const {
    if (!value) return std::nullopt;
    if (plot_.axis == Axis::kLinear) return value;
    if (*value <= 0) return std::nullopt;
    return plot_.axis == Axis::kLog2 ? std::log2(*value) : std::log10(*value);
  }
  [[nodiscard]] double x(double attempt) const {
    const double span = std::max(1.0, static_cast<double>(plot_.last - plot_.first));
    return kLeft + (kWidth - kLeft - kRight) * (attempt - static_cast<double>(plot_.first)) / span;
  }
  [[nodiscard]] double y(double value) const {
    // Halves: the difference of two huge values may overflow.
    return kHeight - kBottom - (kHeight - kTop - kBottom) * ((value / 2 - low_ / 2) / (high_ / 2 - low_ / 2));
  }
  [[nodiscard]] std::string tick(double value) const {
    if (plot_.axis == Axis::kLog2) return fmt::format("2^{}", std::lround(value));
    if (plot_.axis == Axis::kLog10) return fmt::format("1e{}", std::lround(value));
    return text::magnitude(value);
  }

  void axes() {
    std::vector<double> ticks;
    constexpr int kTicks = 5;
    if (plot_.axis == Axis::kLinear) {
      for (int i = 0; i < kTicks; ++i) ticks.push_back(low_ + (high_ / (kTicks - 1) - low_ / (kTicks - 1)) * i);
    } else {
      const double step = std::max(1.0, std::ceil((std::floor(high_) - std::ceil(low_)) / kTicks));
      for (double at = std::ceil(low_); at <= high_; at += step) ticks.push_back(at);
      if (ticks.empty()) ticks.push_back(std::round(low_));
    }
    if (!empty_) {
      for (const double at : ticks) {
        fmt::format_to(
            std::back_inserter(out_),
            "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text class=\"a\" x=\"{3:.1f}\" "
            "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
            kLeft, kWidth - kRight, y(at), kLeft - 6, y(at) + 4, escape(tick(at)));
      }
    }
    constexpr int kSteps = 4;
    std::uint64_t before = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const auto at = plot_.first + (plot_.last - plot_.first) * static_cast<std::uint64_t>(i) / kSteps;
      if (i > 0 && at == before) continue;
      before = at;
      fmt::format_to(std::back_inserter(out_), "<text class=\"a\" x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n",
                     x(static_cast<double>(at)), kHeight - 4,
                     i == 0        ? "start"
                     : i == kSteps ? "end"
                                   : "middle",
                     text::exact(at));
    }
  }

  // The room between the extremes of merged attempts.
  void envelope() {
    const auto merged = [](const SeriesPoint& p) { return p.low && p.high && *p.low != *p.high; };
    if (std::none_of(plot_.points.begin(), plot_.points.end(), merged)) return;
    std::string path;
    for (const auto& point : plot_.points) {
      const auto low = place(point.low);
      const auto high = place(point.high);
      if (!low || !high || *low == *high) continue;
      fmt::format_to(std::back_inserter(path), "M{0:.1f} {1:.1f}V{2:.1f}", x(middle(point)), y(*low), y(*high));
    }
    out_ += fmt::format("<path class=\"e\" d=\"{}\"/>\n", path);
  }

  void line() {
    std::string path;
    bool pen = false;
    for (const auto& point : plot_.points) {
      const auto value = place(point.high);
      if (!value) {
        pen = false;
        continue;
      }
      // A point on its own shows as a short stroke.
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}{}", pen ? "L" : "M", x(middle(point)), y(*value),
                     pen ? "" : "h0.5");
      pen = true;
    }
    out_ += fmt::format("<path class=\"l\" d=\"{}\"/>\n", path);
  }

  void marks() {
    int drawn = 0;
    std::uint64_t nan = 0;
    std::uint64_t inf = 0;
    for (const auto& point : plot_.points) {
      if (point.nan + point.inf == 0) continue;
      nan += point.nan;
      inf += point.inf;
      if (++drawn > kMaxMarks) continue;
      fmt::format_to(
          std::back_inserter(out_),
          "<rect class=\"n\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"2\" height=\"7\"><title>attempt {}: {}</title></rect>\n",
          x(middle(point)) - 1, kTop - 8,
          point.first == point.last ? fmt::format("{}", point.first) : fmt::format("{}-{}", point.first, point.last),
          point.nan > 0 ? "NaN" : "Inf");
    }
    std::string note;
    if (nan > 0) note += fmt::format("{} NaN", text::exact(nan));
    if (inf > 0) note += fmt::format("{}{} Inf", note.empty() ? "" : ", ", text::exact(inf));
    double last = -1;
    for (const auto attempt : plot_.skips) {
      const double at = x(static_cast<double>(attempt));
      if (at - last < 1) continue;  // would cover the one before
      last = at;
      fmt::format_to(std::back_inserter(out_), "<rect class=\"s\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"1.5\" height=\"7\"/>\n",
                     at - 0.7, kHeight - kBottom + 3);
    }
    if (!plot_.skips.empty()) {
      note += fmt::format("{}{}", note.empty() ? "" : ", ", text::plural(plot_.skips.size(), "skipped attempt"));
    }
    if (!note.empty()) {
      out_ +=
          fmt::format("<text class=\"m\" x=\"{:.0f}\" y=\"14\" text-anchor=\"end\">{}</text>\n", kWidth - kRight, escape(note));
    }
  }

  static double middle(const SeriesPoint& point) {
    return (static_cast<double>(point.first) + static_cast<double>(point.last)) / 2;
  }

  const Plot& plot_;
  double low_ = 0;
  double high_ = 0;
  bool empty_ = true;
  std::string out_;
};

}  // namespace

std::string escape(std::string_view bytes) {
  std::string out;
  for (const char c : names::escape(bytes)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string svg(const Plot& plot) {
  return Painter(plot).paint();
}

Axis axis_for(const std::vector<SeriesPoint>& points) {
  double low = 0;
  double high = 0;
  bool any = false;
  for (const auto& point : points) {
    if (!point.low) continue;
    if (*point.low <= 0) return Axis::kLinear;
    low = any ? std::min(low, *point.low) : *point.low;
    high = any ? std::max(high, *point.high) : *point.high;
    any = true;
  }
  constexpr double kDecades = 100;
  return any && high / low > kDecades ? Axis::kLog10 : Axis::kLinear;
}

}  // namespace scalewatch::cli::html
