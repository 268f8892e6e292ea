// How a server reaches a shared history in ClickHouse, and what it does while it can't. See CLICKHOUSE.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace scalewatch::clickhouse {

struct Options {
  // Base addresses, http(s)://host:port, separated by commas; empty: there is no such history. Of several the first that
  // answers is used, and again the first once it does. With `layout` sharded tables are made on each of them.
  std::string hosts;
  std::string database = "scalewatch";
  std::string user = "default";
  std::string password_file;  // a file that holds the password, read again when ClickHouse refuses it; empty: none
  std::string password_env;   // or an environment variable that does
  std::string ca_file;        // that https hosts are checked against; empty: the system's
  // plain: MergeTree of one server. replicated: ReplicatedMergeTree, with the server's own {shard} and {replica} macros.
  // sharded: on each host, behind a Distributed table over `cluster`. sharded_replicated: both.
  std::string layout = "plain";
  std::string cluster;                        // sharded: as remote_servers calls it
  std::string compression = "none";           // of what is sent: none, or gzip (a slow network)
  bool required = false;                      // clients keep reports until they are in ClickHouse
  std::chrono::milliseconds every{1000};      // a batch at least this long after the one before
  std::chrono::milliseconds timeout{30'000};  // of one request
  std::uint64_t batch_records = 1'000'000;    // no more in one batch; about 110 bytes of memory each, twice while it is late
  // What is not in ClickHouse yet keeps its records here while it is younger and smaller than this; then retention thins it as
  // anything else.
  std::uint64_t max_lag_bytes = std::uint64_t{64} << 30;
  std::chrono::milliseconds max_lag_age{std::chrono::hours(48)};
  std::chrono::milliseconds keep_log{std::chrono::hours(72)};  // reports as received, that a takeover needs, stay so long

  [[nodiscard]] bool enabled() const { return !hosts.empty(); }
  [[nodiscard]] bool sharded() const { return layout.starts_with("sharded"); }
  [[nodiscard]] bool replicated() const { return layout.ends_with("replicated"); }
};

// What is wrong with them, naming the key; empty: nothing. Reads the password.
std::string fault_of(const Options& options);
// Addresses, in order.
std::vector<std::string> hosts_of(const Options& options);
// Throws StoreError when it can't be read.
std::string read_password(const Options& options);

}  // namespace scalewatch::clickhouse
