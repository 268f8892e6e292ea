#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "server/cli/checklist_facts.h"
#include "server/cli/checklist_text.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {

namespace {

domain::ChecklistFacts facts_of(Client& client, const std::string& what) {
  std::error_code error;
  if (std::filesystem::is_regular_file(what, error)) return checklist_facts(what);
  v1::GetRunRequest request;
  request.set_run(what);
  const auto run = client.get_run(request);
  if (run.run().attempts() == 0 && run.findings().empty()) {
    throw CallError("the run has reported no attempt yet, so there is nothing to judge: " + Screen::name(what), kExitNothing);
  }
  return checklist_facts(client, run);
}

}  // namespace

ExitCode show_checklist(Client& client, const ChecklistOptions& options, const Screen& screen) {
  const auto items = domain::judge_checklist(facts_of(client, options.what));
  if (screen.json) {
    screen.out << checklist_json(items).dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  } else {
    print_checklist(items, screen);
  }
  return any_violated(items) ? kExitWarning : kExitOk;
}

}  // namespace scalewatch::cli
