#include <fmt/format.h>

#include "server/cli/json.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

text::Cell value_cell(const v1::TopTensor& tensor, v1::TopTensorsRequest::By by) {
  switch (by) {
    case v1::TopTensorsRequest::BY_UNDERFLOW:
      return {text::percent(tensor.value(), 1)};
    case v1::TopTensorsRequest::BY_NON_FINITE:
      return bad_count_cell(static_cast<std::uint64_t>(std::max(0.0, tensor.value())));
    case v1::TopTensorsRequest::BY_ABSMAX:
    case v1::TopTensorsRequest::BY_NORM:
      return {text::magnitude(tensor.value())};
    default:
      return headroom_cell(tensor.value());
  }
}

std::string_view header(v1::TopTensorsRequest::By by) {
  switch (by) {
    case v1::TopTensorsRequest::BY_UNDERFLOW:
      return "SUBNORMAL";
    case v1::TopTensorsRequest::BY_NON_FINITE:
      return "NAN + INF";
    case v1::TopTensorsRequest::BY_ABSMAX:
      return "LARGEST";
    case v1::TopTensorsRequest::BY_NORM:
      return "NORM";
    default:
      return "LEAST HEADROOM";
  }
}

}  // namespace

void show_top(Client& client, const TopOptions& options, const Screen& screen) {
  v1::TopTensorsRequest request;
  request.set_run(options.run);
  request.set_by(parse_by(options.by));
  request.set_limit(options.limit);
  request.set_role(parse_role(options.role));
  request.mutable_range()->set_segment(options.range.segment);
  request.mutable_range()->set_first(options.range.first);
  request.mutable_range()->set_last(options.range.last);
  const auto response = client.top_tensors(request);
  if (screen.json) return print_json(response, screen.out);
  if (response.tensors().empty()) {
    screen.out << "No tensor has such a value in these attempts: see `scalewatch tensors RUN`.\n";
    return;
  }
  if (response.range().last() > 0) {
    screen.out << fmt::format("Attempts {} of segment {}\n", attempts_text(response.range().first(), response.range().last()),
                              response.range().segment());
  }
  using text::Align;
  text::Table table({{"TENSOR", Align::kLeft, true},
                     {"ROLE"},
                     {std::string(header(request.by())), Align::kRight},
                     {"ATTEMPT", Align::kRight},
                     {"ABSMAX", Align::kRight},
                     {"HEADROOM", Align::kRight},
                     {"NAN", Align::kRight},
                     {"INF", Align::kRight}});
  bool scaled = false;
  for (const auto& tensor : response.tensors()) {
    scaled = scaled || scale_of(tensor.worst()) != 1;
    table.add({{Screen::name(tensor.info().name())},
               {std::string(role_short(tensor.info().role()))},
               value_cell(tensor, request.by()),
               {tensor.attempt() == 0 ? "-" : fmt::format("{}", tensor.attempt())},
               absmax_cell(tensor.worst()),
               headroom_cell(tensor.worst()),
               bad_count_cell(tensor.worst().nan()),
               bad_count_cell(infinities(tensor.worst()))});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (scaled) {
    screen.say("Magnitudes are unscaled (stored value / loss scale); HEADROOM and overflow are of the values as stored.",
               text::Style::kDim);
  }
}

}  // namespace scalewatch::cli
