#include "server/cli/json.h"
#include "server/cli/paging.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

void show_tensors(Client& client, const TensorsOptions& options, const Screen& screen) {
  v1::ListTensorsRequest request;
  request.set_run(options.run);
  request.set_name_contains(options.name);
  request.set_role(parse_role(options.role));
  const auto response = read_pages<v1::ListTensorsResponse>(
      request, options.limit, [&](const v1::ListTensorsRequest& r) { return client.list_tensors(r); },
      [](v1::ListTensorsResponse& r) { return r.mutable_tensors(); });
  if (screen.json) return print_json(response, screen.out);
  if (response.tensors().empty()) {
    const bool filtered = !options.name.empty() || !options.role.empty();
    screen.out << (filtered ? "No tensor matches: see all with `scalewatch tensors RUN`.\n"
                            : "The run has sent no tensors yet.\n");
    return;
  }
  using text::Align;
  text::Table table({{"TENSOR", Align::kLeft, true},
                     {"ROLE"},
                     {"DTYPE"},
                     {"NUMEL", Align::kRight},
                     {"ABSMAX", Align::kRight},
                     {"HEADROOM", Align::kRight},
                     {"SUBNORM", Align::kRight},
                     {"NAN", Align::kRight},
                     {"INF", Align::kRight}});
  bool scaled = false;
  for (const auto& tensor : response.tensors()) {
    std::vector<text::Cell> row{{Screen::name(tensor.info().name())},
                                {std::string(role_short(tensor.info().role()))},
                                {std::string(dtype_word(tensor.info().dtype()))},
                                {text::count(tensor.info().numel())}};
    if (tensor.has_last()) {
      scaled = scaled || scale_of(tensor.last()) != 1;
      row.push_back(absmax_cell(tensor.last()));
      row.push_back(headroom_cell(tensor.last()));
      row.push_back(underflow_cell(tensor.last()));
      row.push_back(bad_count_cell(tensor.last().nan()));
      row.push_back(bad_count_cell(infinities(tensor.last())));
    } else {
      row.insert(row.end(), 5, text::Cell{"-"});
    }
    table.add(std::move(row));
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  print_record_notes(scaled, screen);
  if (!response.next_page_token().empty())
    screen.out << "More tensors follow: raise --limit or filter with --name and --role.\n";
}

}  // namespace scalewatch::cli
