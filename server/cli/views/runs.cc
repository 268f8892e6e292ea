#include "server/cli/json.h"
#include "server/cli/paging.h"
#include "server/cli/views/runs_table.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

void show_runs(Client& client, const RunsOptions& options, const Screen& screen) {
  v1::ListRunsRequest request;
  request.set_name_contains(options.name);
  if (!options.status.empty()) request.set_status(parse_status(options.status));
  request.set_min_severity(parse_severity(options.min_severity));
  auto response = read_pages<v1::ListRunsResponse>(
      request, options.limit, [&](const v1::ListRunsRequest& r) { return client.list_runs(r); },
      [](v1::ListRunsResponse& r) { return r.mutable_runs(); });
  sort_runs(*response.mutable_runs());
  if (screen.json) return print_json(response, screen.out);
  if (response.runs().empty()) {
    const bool filtered = !options.name.empty() || !options.status.empty() || !options.min_severity.empty();
    screen.out << (filtered ? "No run matches: see all with `scalewatch runs`.\n"
                            : "No runs yet: link a trainer with Scalewatch::client and point it at this server.\n");
    return;
  }
  print_runs(response.runs(), true, screen);
  if (!response.next_page_token().empty()) screen.out << "More runs follow: raise --limit.\n";
}

}  // namespace scalewatch::cli
