#include "server/cli/views/reload.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "server/cli/json.h"

namespace scalewatch::cli {

namespace {

constexpr std::chrono::seconds kDeadline{15};

template <class Lines>
void print_lines(const char* title, const Lines& lines, const Screen& screen) {
  if (lines.empty()) return;
  screen.say(title, text::Style::kBold);
  for (const std::string& line : lines) screen.say("  " + Screen::name(line));
}

}  // namespace

ExitCode reload_configuration(Client& client, const ReloadOptions& options, const Screen& screen) {
  v1::ReloadConfigurationRequest request;
  request.set_who(options.who);
  v1::ReloadConfigurationResponse response;
  const auto stub = v1::Alerts::NewStub(client.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  const grpc::Status status = stub->ReloadConfiguration(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
    throw CallError(Screen::name(status.error_message()) + "; the server goes on as it was", kExitWarning);
  }
  if (!status.ok()) client.fail(status);
  if (screen.json) {
    print_json(response, screen.out);
    return kExitOk;
  }
  print_lines("Taken", response.applied(), screen);
  print_lines("Needs a restart, and stays as it was until then", response.need_restart(), screen);
  if (response.applied().empty() && response.need_restart().empty()) screen.say("Read again: nothing differs.");
  return kExitOk;
}

}  // namespace scalewatch::cli
