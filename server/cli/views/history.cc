#include <fmt/format.h>

#include <optional>

#include "server/cli/json.h"
#include "server/cli/text/plot.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/tensor_stat.h"
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
  request.mutable_range()->set_segment(options.range.segment);
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

std::optional<double> least_headroom(const v1::TensorPoint& point) {
  if (point.has_min_headroom()) return point.min_headroom();
  if (point.record().has_headroom()) return point.record().headroom();
  return std::nullopt;
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

void print_picture(const v1::GetTensorHistoryResponse& response, const std::string& name, const Screen& screen) {
  const auto& stat = tensor_stat(name);
  std::vector<text::Sample> samples;
  std::vector<char> marks;
  for (const auto& point : response.points()) {
    samples.push_back(name == "headroom" ? text::linear(least_headroom(point)) : stat.sample(point.record()));
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

// The scales that a point's values were stored under.
struct Scales {
  double low = 1;
  double high = 1;
  bool operator==(const Scales&) const = default;
};

Scales scales_of(const v1::TensorPoint& point) {
  if (point.scale_high() > 0) return {point.scale_low(), point.scale_high()};
  const double scale = point.record().measured_under_scale();  // 0 where a scaler ended there
  return {scale, scale};
}

// "2^16", or "2^15..2^16" where a row holds a change.
std::string scale_text(const Scales& scales) {
  return text::scale(scales.low) + (scales.low == scales.high ? "" : ".." + text::scale(scales.high));
}

void print_table(const v1::GetTensorHistoryResponse& response, const Screen& screen) {
  using text::Align;
  text::Table table({{"ATTEMPT"},
                     {"ABSMAX", Align::kRight},
                     {"HEADROOM", Align::kRight},
                     {"NORM", Align::kRight},
                     {"SUBNORM", Align::kRight},
                     {"NAN", Align::kRight},
                     {"INF", Align::kRight},
                     {"SCALE", Align::kRight},
                     {""}});
  bool scaled = false;
  bool any_change = false;
  Scales before = scales_of(response.points(0));
  for (const auto& point : response.points()) {
    const auto scales = scales_of(point);
    const bool changed = scales.low != scales.high || scales != before;
    before = scales;
    any_change = any_change || changed;
    scaled = scaled || scales != Scales{};
    table.add({{attempts_text(point.first_attempt(), point.last_attempt())},
               absmax_cell(point.record()),
               headroom_cell(least_headroom(point)),
               {text::magnitude(norm(point.record()))},
               underflow_cell(point.record()),
               bad_count_cell(point.record().nan()),
               bad_count_cell(infinities(point.record())),
               {scale_text(scales), changed ? text::Style::kNotice : text::Style::kPlain},
               {changed ? "*" : "", text::Style::kNotice}});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  print_record_notes(scaled, screen);
  if (any_change) screen.out << "* the scale changed in these attempts or right before them.\n";
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
  print_picture(response, options.stat, screen);
  screen.out << '\n';
  print_table(response, screen);
  if (response.truncated()) screen.out << fmt::format("More follows: go on with --first {}.\n", response.next_attempt());
}

}  // namespace scalewatch::cli
