#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "server/cli/attempts.h"
#include "server/cli/json.h"
#include "server/cli/paging.h"
#include "server/cli/run_segment.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

// How far back a tensor's newest record is looked for in a segment that is not the newest: some tensors are not measured at
// every attempt.
constexpr std::uint64_t kLookBack = 32;

// What the server tells of the newest segment, of an earlier one: its last attempts, later records over earlier ones.
v1::ListTensorsResponse read_segment(Client& client, const TensorsOptions& options, const Screen& screen) {
  v1::ListTensorsResponse out;
  const auto run = get_run_segment(client, options.run, options.segment);
  const auto range = closed_range(client, run.run().run_uid(), {options.segment, 0, 0}, kLookBack);
  if (!range) return out;
  const auto role = parse_role(options.role);
  std::map<std::pair<std::string, int>, v1::TensorSummary> tensors;
  walk_attempts(client, {run.run().run_uid(), *range, std::nullopt, true, "reading"}, screen,
                [&](const v1::GetAttemptResponse& page, bool) {
                  for (const auto& tensor : page.tensors()) {
                    const auto& info = tensor.info();
                    if (role != v1::ROLE_UNSPECIFIED && info.role() != role) continue;
                    if (info.name().find(options.name) == std::string::npos) continue;
                    auto& summary = tensors[{info.name(), static_cast<int>(info.role())}];
                    *summary.mutable_info() = info;
                    *summary.mutable_last() = tensor.record();
                    summary.set_last_attempt(page.attempt().attempt());
                    summary.set_ranks(static_cast<std::uint32_t>(tensor.ranks_size()));
                  }
                  return true;
                });
  for (auto& [key, summary] : tensors) *out.add_tensors() = std::move(summary);
  std::stable_sort(out.mutable_tensors()->begin(), out.mutable_tensors()->end(),
                   [](const v1::TensorSummary& a, const v1::TensorSummary& b) {
                     return std::make_pair(a.info().forward_index(), a.info().role()) <
                            std::make_pair(b.info().forward_index(), b.info().role());
                   });
  if (out.tensors_size() > static_cast<int>(options.limit)) {
    out.mutable_tensors()->DeleteSubrange(static_cast<int>(options.limit),
                                          out.tensors_size() - static_cast<int>(options.limit));
    out.set_next_page_token("more");
  }
  return out;
}

v1::ListTensorsResponse read_newest(Client& client, const TensorsOptions& options) {
  v1::ListTensorsRequest request;
  request.set_run(options.run);
  request.set_name_contains(options.name);
  request.set_role(parse_role(options.role));
  return read_pages<v1::ListTensorsResponse>(
      request, options.limit, [&](const v1::ListTensorsRequest& r) { return client.list_tensors(r); },
      [](v1::ListTensorsResponse& r) { return r.mutable_tensors(); });
}

}  // namespace

void show_tensors(Client& client, const TensorsOptions& options, const Screen& screen) {
  const auto response = options.segment == 0 ? read_newest(client, options) : read_segment(client, options, screen);
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
