#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "server/cli/checklist_facts.h"
#include "server/cli/checklist_text.h"
#include "server/cli/views/views.h"

namespace scalewatch::cli {

namespace {

// Does it look like a file's name rather than a run's?
bool like_a_path(const std::string& what) {
  const auto extension = std::filesystem::path(what).extension().string();
  for (const auto* known : {".log", ".txt", ".out", ".err", ".csv", ".json", ".jsonl", ".gz"}) {
    if (extension == known) return true;
  }
  return what.starts_with('/') || what.starts_with("./") || what.starts_with("../") || what.starts_with("~/");
}

v1::GetRunResponse ask(Client& client, const std::string& what) {
  v1::GetRunRequest request;
  request.set_run(what);
  try {
    return client.get_run(request);
  } catch (const CallError& error) {
    if (!like_a_path(what)) throw;
    throw CallError(fmt::format("no file {} exists; taken for a run: {}", Screen::name(what), error.what()), error.exit_code());
  }
}

domain::ChecklistFacts facts_of(Client& client, const std::string& what) {
  std::error_code error;
  if (std::filesystem::is_regular_file(what, error)) return checklist_facts(what);
  const auto run = ask(client, what);
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
