// scalewatchd: reads its configuration, runs the server until a signal, stops cleanly.
#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "server/app/config.h"
#include "server/app/log.h"
#include "server/app/server.h"
#include "server/app/version.h"

namespace {

using namespace scalewatch::app;

constexpr int kCannotRun = 1;
constexpr int kBadConfiguration = 2;

int fail(int code, std::string what) {
  std::replace(what.begin(), what.end(), '\n', ' ');
  fmt::print(stderr, "scalewatchd: {}\n", what);
  return code;
}

// Every stream is a file descriptor.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// In one sentence.
std::string who_may_connect(const Config& config) {
  const bool local = config.grpc_address.loopback() && config.http_address.loopback();
  const bool tokens = !config.gate.tokens_file.empty();
  std::string out = local ? "only this machine can connect" : "other machines can connect";
  out += config.tls.on() ? ", with TLS" : ", without encryption";
  if (!config.tls.client_ca.empty()) out += " and a client's certificate";
  return out + (tokens ? "; a token is needed" : "; no token is needed");
}

int run(const Config& config, const ReadConfig& read_again, const sigset_t& signals) {
  log::setup(config.log_level, config.log_format);
  int code = 0;
  try {
    Server server(config, read_again);
    Address grpc = config.grpc_address;
    Address http = config.http_address;
    grpc.port = server.grpc_port();
    http.port = server.http_port();
    fmt::print("scalewatchd {}: gRPC {}, HTTP {}://{}, data in {}\n", kVersion, grpc.text(), config.tls.on() ? "https" : "http",
               http.text(), config.data_dir);
    fmt::print("{}\n", who_may_connect(config));
    std::fflush(stdout);
    log::info("started", {{"version", kVersion},
                          {"grpc", grpc.text()},
                          {"http", http.text()},
                          {"data_dir", config.data_dir},
                          {"access", who_may_connect(config)}});
    for (const std::string& warning : scalewatch::auth::tls_warnings(config.tls)) log::warning(warning);

    int signal = 0;
    while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) server.reload("SIGHUP");
    // From now on these have their usual effect: the second one ends the process at once.
    sigset_t ends = signals;
    sigdelset(&ends, SIGHUP);
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
    log::info("stopping", {{"signal", std::to_string(signal)}});
    server.stop();
    log::info("stopped");
  } catch (const std::exception& error) {
    code = fail(kCannotRun, error.what());
  }
  log::shutdown();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // What a client sends in broken UTF-8 is answered to the client; Protobuf's own line would break the log's format.
  google::protobuf::SetLogHandler(nullptr);
  // Blocked before any thread starts, so that all inherit it and sigwait gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const CommandLine line = parse_command_line(argc, argv);
    if (line.message) {
      fmt::print("{}", *line.message);
      return 0;
    }
    if (line.check) {
      fmt::print("the configuration is valid\n");
      return 0;
    }
    allow_many_files();
    ReadConfig read_again;
    if (!line.file.empty()) read_again = [argc, argv] { return parse_command_line(argc, argv, true).config; };
    return run(line.config, read_again, signals);
  } catch (const ConfigError& error) {
    return fail(kBadConfiguration, error.what());
  } catch (const std::exception& error) {
    return fail(kCannotRun, error.what());
  }
}
