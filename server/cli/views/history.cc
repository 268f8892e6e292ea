#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "server/cli/json.h"
#include "server/cli/text/plot.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

// The server may answer in pieces; this bounds how many are asked for.
constexpr int kMaxPieces = 100;

v1::GetTensorHistoryResponse read(Client& client, const HistoryOptions& options) {
  v1::GetTensorHistoryRequest request;
  request.set_run(options.run);
  request.set_tensor(options.tensor);
  request.set_role(parse_role(options.role));
  if (options.rank) request.set_rank(*options.rank);
  request.mutable_range()->set_first(options.range.first);
  request.mutable_range()->set_last(options.range.last);
  request.set_max_points(options.points);
  auto all = client.get_tensor_history(request);
  for (int piece = 1; piece < kMaxPieces && all.truncated() && all.next_attempt() > request.range().first(); ++piece) {
    request.mutable_range()->set_first(all.next_attempt());
    auto next = client.get_tensor_history(request);
    all.mutable_points()->MergeFrom(next.points());
    all.set_truncated(next.truncated());
    all.set_next_attempt(next.next_attempt());
  }
  return all;
}

// How a statistic is drawn.
struct Stat {
  std::string_view label;
  std::function<text::Sample(const v1::TensorPoint&)> sample;
  text::Keep keep = text::Keep::kLargest;
};

std::optional<double> least_headroom(const v1::TensorPoint& point) {
  if (point.has_min_headroom()) return point.min_headroom();
  if (point.record().has_headroom()) return point.record().headroom();
  return std::nullopt;
}

const Stat& stat_of(const std::string& name) {
  using Point = v1::TensorPoint;
  static const std::map<std::string, Stat> kStats{
      {"absmax",
       {"absmax, log2 axis",
        [](const Point& p) { return p.record().has_absmax() ? text::log2_of(p.record().absmax()) : text::Sample{}; }}},
      {"headroom",
       {"headroom, octaves", [](const Point& p) { return text::linear(least_headroom(p)); }, text::Keep::kSmallest}},
      {"nan", {"NaN elements", [](const Point& p) { return text::linear(static_cast<double>(p.record().nan())); }}},
      {"inf", {"infinite elements", [](const Point& p) { return text::linear(static_cast<double>(infinities(p.record()))); }}},
      {"underflow", {"subnormal share of non-zero", [](const Point& p) { return text::linear(underflow(p.record())); }}},
      {"norm", {"norm, log2 axis", [](const Point& p) { return text::log2_of(norm(p.record())); }}},
  };
  const auto found = kStats.find(name);
  return found == kStats.end() ? kStats.at("absmax") : found->second;
}

char mark_of(const v1::Record& record) {
  return record.nan() > 0 ? 'N' : infinities(record) > 0 ? 'I' : '\0';
}

void print_head(const v1::GetTensorHistoryResponse& response, const HistoryOptions& options, const Screen& screen) {
  const auto& info = response.info();
  screen.out << screen.paint(text::truncate_middle(Screen::name(info.name()), screen.width, screen.ascii), text::Style::kBold)
             << '\n'
             << fmt::format("{}, {}, {} elements, {}\n", role_word(static_cast<Role>(info.role())), dtype_word(info.dtype()),
                            text::exact(info.numel()),
                            options.rank ? fmt::format("rank {}", *options.rank) : "all ranks merged");
}

void print_picture(const v1::GetTensorHistoryResponse& response, const Stat& stat, const Screen& screen) {
  std::vector<text::Sample> samples;
  std::vector<char> marks;
  for (const auto& point : response.points()) {
    samples.push_back(stat.sample(point));
    marks.push_back(mark_of(point.record()));
  }
  const int width = screen.plot_width();
  screen.out << '\n'
             << stat.label << ", attempts "
             << attempts_text(response.points(0).first_attempt(), response.points().rbegin()->last_attempt()) << '\n'
             << screen.paint(text::sparkline(samples, width, stat.keep, screen.ascii), text::Style::kNotice) << '\n';
  const auto line = text::marks(marks, width);
  if (!line.empty()) screen.out << screen.paint(line, text::Style::kCritical) << "\nN = NaN, I = Inf in these attempts\n";
}

void print_scale_note(const v1::GetTensorHistoryResponse& response, const Screen& screen) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const auto& point : response.points()) {
    const double stored = point.record().measured_under_scale();
    const double scale = stored == 0 ? 1 : stored;
    low = std::min(low, scale);
    high = std::max(high, scale);
  }
  if (low == 1 && high == 1) return;
  screen.out << (low == high ? fmt::format("Values as stored, under scale {}.\n", text::scale(high))
                             : fmt::format("Values as stored, under scales {} to {}.\n", text::scale(low), text::scale(high)));
}

}  // namespace

void show_history(Client& client, const HistoryOptions& options, const Screen& screen) {
  const auto response = read(client, options);
  if (screen.json) return print_json(response, screen.out);
  print_head(response, options, screen);
  if (response.points().empty()) {
    screen.out << "No record of it in these attempts.\n";
    return;
  }
  print_picture(response, stat_of(options.stat), screen);
  screen.out << '\n';
  using text::Align;
  text::Table table({{"ATTEMPT"},
                     {"ABSMAX", Align::kRight},
                     {"HEADROOM", Align::kRight},
                     {"NORM", Align::kRight},
                     {"SUBNORM", Align::kRight},
                     {"NAN", Align::kRight},
                     {"INF", Align::kRight}});
  for (const auto& point : response.points()) {
    table.add({{attempts_text(point.first_attempt(), point.last_attempt())},
               absmax_cell(point.record()),
               headroom_cell(least_headroom(point)),
               {text::magnitude(norm(point.record()))},
               underflow_cell(point.record()),
               bad_count_cell(point.record().nan()),
               bad_count_cell(infinities(point.record()))});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  print_scale_note(response, screen);
  if (response.truncated()) screen.out << fmt::format("More follows: go on with --first {}.\n", response.next_attempt());
}

}  // namespace scalewatch::cli
