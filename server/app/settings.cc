#include "server/app/settings.h"

#include <fmt/format.h>

#include <algorithm>

namespace scalewatch::app {
namespace {

constexpr std::uint64_t kKiB = 1u << 10;
constexpr std::uint64_t kMiB = 1u << 20;
constexpr std::uint64_t kGiB = 1u << 30;
constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kDay = 24 * (60 * kMinute);

// Keys of `limits`, which is a message: its fields are bound by getter and setter.
void add_limits(v1::Limits& limits, std::vector<Setting>& all) {
  all.push_back(number(
      "limits.max_tensors", [&] { return limits.max_tensors(); },
      [&](std::uint64_t value) { limits.set_max_tensors(static_cast<std::uint32_t>(value)); }, 1, 16'000'000,
      "tensors that one client may announce"));
  all.push_back(size(
      "limits.max_name", [&] { return limits.max_name_bytes(); },
      [&](std::uint64_t value) { limits.set_max_name_bytes(static_cast<std::uint32_t>(value)); }, 16, 64 * kKiB,
      "one tensor's name"));
  all.push_back(size(
      "limits.max_message", [&] { return limits.max_message_bytes(); },
      [&](std::uint64_t value) { limits.set_max_message_bytes(static_cast<std::uint32_t>(value)); }, 64 * kKiB, kGiB,
      "one message of a client"));
}

void add_history_settings(history::StoreOptions& h, std::vector<Setting>& all) {
  history::RetentionOptions& r = h.retention;
  all.push_back(flag("history.compaction", h.compaction.enabled, "turn reports into compact chunks once there are enough"));
  all.push_back(duration("history.idle_after", h.compaction.idle_after, kSecond, kDay,
                         "a stream that brings nothing for this long is compacted whole"));
  all.push_back(duration("history.thin_after", r.thin_after, 0, 3650 * kDay,
                         "ended runs older than this keep summaries of 128 attempts, no single records; 0 = never"));
  all.push_back(duration("history.max_age", r.max_age, 0, 3650 * kDay, "ended runs older than this go; 0 = never"));
  all.push_back(number("history.max_runs", r.max_runs, 0, 10'000'000, "the oldest ended runs beyond this go; 0 = no limit"));
  all.push_back(size("history.max_size", r.max_bytes, 0, 1024 * 1024 * kGiB,
                     "the oldest ended runs go while the file holds more; 0 = no limit"));
  all.push_back(number("history.keep_attempts", r.keep_attempts, 0, 1'000'000'000'000,
                       "of every run, older attempts than this many keep only summaries; 0 = no limit"));
  all.push_back(size("history.max_run_size", r.max_run_bytes, 0, 1024 * 1024 * kGiB,
                     "of every run, the oldest attempts keep only summaries while its chunks hold more; 0 = no limit"));
  all.push_back(
      text("history.pinned", r.pinned, "runs that are never thinned or removed: names with * and ?, separated by commas"));
  all.push_back(duration("history.retention_every", r.every, kSecond, kDay, "how often these limits are looked at"));
}

void add_security_settings(Config& c, std::vector<Setting>& all) {
  all.push_back(text("tls.certificate", c.tls.certificate,
                     "PEM file of the server's certificate and those that lead to its authority; empty = no TLS"));
  all.push_back(text("tls.key", c.tls.key, "PEM file of its key, without a password"));
  all.push_back(text("tls.client_ca", c.tls.client_ca,
                     "PEM file of authorities: clients must show a certificate of one; empty = none is asked for"));
  all.push_back(text("auth.tokens_file", c.gate.tokens_file,
                     "file that `scalewatch admin token` keeps: callers must show one of them; empty = none is asked for"));
  all.push_back(text("auth.audit_log", c.gate.audit_log,
                     "file that gets a line of JSON for each call that changes something or was refused; empty = the log"));
}

}  // namespace

std::vector<Setting> settings(Config& c) {
  std::vector<Setting> all;
  const auto add = [&](Setting setting) { all.push_back(std::move(setting)); };
  add(text("data_dir", c.data_dir, "folder of the history; made when missing"));
  add(address("listen.grpc", c.grpc_address, "where trainers and tools connect; port 0 = any free one"));
  add(address("listen.http", c.http_address, "metrics, health and the JSON API; port 0 = any free one"));
  add(flag("listen.insecure", c.insecure_listen, "allow addresses other than loopback without TLS"));
  add(flag("listen.anonymous", c.anonymous_listen,
           "allow them without tokens or clients' certificates: anybody may everything"));
  add(text("listen.port_file", c.port_file, "file that gets \"grpc=PORT\" and \"http=PORT\" once both listen; empty = none"));
  add(text("listen.public_url", c.public_url, "where people reach the HTTP side, for links in alerts; empty = no links"));
  add_security_settings(c, all);
  add(choice("log.level", c.log_level, {"debug", "info", "warning", "error", "off"}, "least level that is written"));
  add(choice("log.format", c.log_format, {"text", "json"}, "one line an event on standard error, as text or JSON"));

  add_history_settings(c.history, all);
  add_clickhouse_settings(c.clickhouse, all);

  engine::EngineOptions& e = c.engine;
  add(number("engine.threads", e.threads, 1, 256, "threads that fold reports into runs"));
  add(duration("engine.commit_delay", e.commit_delay, 1, 10 * kSecond, "a report waits at most this long to become durable"));
  add(size("engine.commit_size", e.commit_bytes, 64 * kKiB, kGiB, "commit sooner once this much waits"));
  add(duration("engine.close_after", e.close_after, 10, 10 * kMinute, "an attempt waits this long for missing ranks"));
  add(number("engine.close_lead", e.close_lead, 1, 10'000, "or until one rank is this many attempts ahead"));
  add(duration("engine.snapshot_every", e.snapshot_every, 100, kDay, "a changed run is saved this often, for quick restarts"));
  add(duration("engine.silent_after", e.silent_after, kSecond, kMinute * 10,
               "a stream that brings nothing for this long counts as gone; clients beat every 5 s"));
  add(size("engine.stream_queue", e.stream_queue_bytes, 64 * kKiB, kGiB, "a stream is not read beyond this much unsaved"));
  add(size("engine.run_queue", e.run_queue_bytes, 64 * kKiB, 64 * kGiB, "nor a run"));
  add(size("engine.total_queue", e.total_queue_bytes, kMiB, 1024 * kGiB, "nor all runs together"));
  add(number("engine.max_runs", e.max_runs, 1, 10'000'000, "runs known in all"));
  add(number("engine.max_ranks", e.max_ranks, 1, 10'000'000, "ranks of one run"));
  add_limits(e.limits, all);
  add(number("limits.max_streams", c.gate.max_streams, 0, 10'000'000, "streams of all clients together; 0 = no limit"));
  add(number("limits.max_records_per_second", c.gate.max_records_per_second, 0, 1'000'000'000,
             "of all clients together: more is read later; 0 = no limit"));
  add(number("limits.max_queries_per_token", c.gate.max_queries_per_token, 0, 1'000'000,
             "calls at once of a token that has no limit of its own; 0 = no limit"));
  add(duration("limits.hello_within", c.gate.hello_within, 100, kDay, "a stream that says no Hello for this long ends"));
  add(duration("limits.reader_patience", c.gate.reader_patience, 100, kDay,
               "a live reader who takes nothing for this long is cut"));

  domain::CollectionOptions& k = e.collection;
  add(flag("collection.stats_leader", k.stats_leader, "of ranks that hold the same tensors, one sends full statistics"));
  add(number("collection.state_every", k.state_every, 1, 1'000'000,
             "the others send parameters, buffers and optimizer state every so many measurements"));
  add(flag("collection.microscope", k.microscope, "full records of what an open finding blames, while it is open"));
  add(number("collection.microscope_findings", k.microscope_findings, 1, 1'000, "findings of a run looked at, worst first"));
  add(number("collection.microscope_tensors", k.microscope_tensors, 1, 10'000, "tensors of a run looked at"));
  add(number("collection.microscope_ranks", k.microscope_ranks, 1, 10'000, "ranks asked of those that a finding blames"));
  add(number("collection.microscope_attempts", k.microscope_attempts, 1, 1'000'000, "attempts beyond a finding's last one"));
  add(number("collection.microscope_reach", k.microscope_reach, 0, 1'000, "places around the blamed tensor, forward order"));

  add(number("grpc.max_streams_per_connection", c.grpc.max_streams_per_connection, 1, 1'000'000, "calls of one connection"));
  add(size("grpc.memory", c.grpc.memory, 16 * kMiB, 1024 * kGiB, "transport buffers of all connections together"));
  add(number("grpc.max_threads", c.grpc.max_threads, 16, 10'000, "threads that answer calls other than ingest's"));
  add(duration("grpc.keepalive_time", c.grpc.keepalive_time, kSecond, kDay, "a silent connection is asked after this"));
  add(duration("grpc.keepalive_timeout", c.grpc.keepalive_timeout, kSecond, kDay,
               "and is closed without an answer after this"));
  add(duration("grpc.min_ping_interval", c.grpc.min_ping_interval, 0, kDay, "clients that ask more often are closed"));

  add_fleet_settings(c.fleet, all);

  add(number("http.max_connections", c.http.max_connections, 1, 100'000, "further ones get 503"));
  add(number("http.api_threads", c.http.api_threads, 1, 256, "threads that answer /api/"));
  add(number("http.api_queue", c.http.api_queue, 0, 100'000, "queries that wait for them; further ones get 503"));
  add(duration("http.idle_timeout", c.http.idle_timeout, 100, kDay, "a connection that sends or takes nothing is closed"));
  add(size("http.max_unsent", c.http.max_unsent_bytes, kMiB, 64 * kGiB, "answers that readers have not taken; then 503"));

  add(number("metrics.max_runs", c.metrics.max_runs, 0, 1'000'000, "runs on /metrics: the worst, then the newest"));
  add(number("metrics.max_scalers_per_run", c.metrics.max_scalers_per_run, 0, 10'000, "scalers of a run on /metrics"));
  add(number("metrics.top_tensors", e.top_tensors, 0, 100, "tensors of a run on /metrics: those with the least headroom"));
  add(duration("metrics.finished_for", c.metrics.finished_for, 0, 365 * kDay, "an ended run stays on /metrics this long"));

  add_alert_settings(c.alerts, all);
  add(duration("alerting.flush", c.alert_flush, 0, 10 * kMinute, "a stopping server waits this long for deliveries"));
  add_rule_settings(e.thresholds, all);
  return all;
}

void apply(std::vector<Setting>& all, const std::string& key, const std::string& value) {
  const auto setting = std::find_if(all.begin(), all.end(), [&](const Setting& each) { return each.key == key; });
  if (setting == all.end()) throw ConfigError("unknown key " + key);
  if (!setting->set(value)) throw ConfigError(fmt::format("{}: expected {}, got \"{}\"", key, setting->expected, value));
}

}  // namespace scalewatch::app
