// What the operator can set, with defaults, and how it is read: a YAML file, then the command line over it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/alerting/book_options.h"
#include "server/alerting/sink_config.h"
#include "server/app/units.h"
#include "server/auth/gate.h"
#include "server/auth/tls_files.h"
#include "server/engine/engine.h"
#include "server/fleet/instances.h"
#include "server/history/clickhouse/options.h"
#include "server/history/sqlite_store.h"
#include "server/http/server.h"
#include "server/metrics/exporter.h"
#include "server/names/escape.h"

namespace scalewatch::app {

// One line that names the key, where it stands, and what is expected. It may quote what stands in a file: a terminal shows it
// as it is.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::string_view what) : std::runtime_error(names::escape(what)) {}
};

struct GrpcOptions {
  std::uint32_t max_streams_per_connection = 1024;
  std::size_t memory = 512u << 20;                   // of transport buffers, all connections together
  int max_threads = 256;                             // of calls other than ingest's; each tail and watch holds one
  std::chrono::milliseconds keepalive_time{30'000};  // a silent connection is asked after this
  std::chrono::milliseconds keepalive_timeout{20'000};
  std::chrono::milliseconds min_ping_interval{5'000};  // clients that ask more often are cut
};

// rules.* for the runs whose names match.
struct RunRules {
  std::string runs;  // shell pattern: * ? [...]
  std::vector<std::pair<std::string, std::string>> values;
};

struct Config {
  Config();

  std::string data_dir = "./scalewatch-data";
  history::StoreOptions history;
  clickhouse::Options clickhouse;
  Address grpc_address{"127.0.0.1", 7462};
  Address http_address{"127.0.0.1", 9464};
  bool insecure_listen = false;   // beyond loopback without encryption
  bool anonymous_listen = false;  // beyond loopback without tokens or certificates of clients
  auth::TlsFiles tls;             // of gRPC and HTTP
  auth::GateOptions gate;
  std::string port_file;   // empty: none
  std::string public_url;  // empty: alerts carry no links
  std::string log_level = "info";
  std::string log_format = "text";
  engine::EngineOptions engine;
  std::vector<RunRules> rules_by_run;
  GrpcOptions grpc;
  fleet::Options fleet;
  http::Options http;  // its address and port are set from http_address
  metrics::Options metrics;
  std::vector<alerting::SinkConfig> sinks;
  alerting::BookOptions alerts;
  std::chrono::milliseconds alert_flush{5000};  // a stopping server waits this long for deliveries
};

// Reads the file's keys over `config`. Throws ConfigError that begins with FILE:LINE.
void load_file(const std::string& path, Config& config);

// The run's own: engine.thresholds, and over them what rules_by_run says. Throws ConfigError.
domain::Thresholds thresholds_of(const Config& config, const std::string& run);

// Gives every sink what it takes of other keys: the public address, the runbooks, the hosts that it may send to. To be called
// when all keys have been read, before validate().
void bind_sinks(Config& config);

// What spans several keys: listening beyond loopback, sinks as a whole. Throws ConfigError.
void validate(const Config& config);

struct CommandLine {
  Config config;
  std::string file;                    // of --config, as it was given; empty: none
  bool check = false;                  // validate only
  std::optional<std::string> message;  // of --help or --version: print it and exit 0
};
// Throws ConfigError. `again`: by a server that runs already, which must not wait for a file, nor find it read and empty.
CommandLine parse_command_line(int argc, const char* const* argv, bool again = false);

}  // namespace scalewatch::app
