#include "server/app/settings.h"

namespace scalewatch::app {

void add_clickhouse_settings(clickhouse::Options& options, std::vector<Setting>& all) {
  constexpr std::int64_t kSecond = 1000;
  constexpr std::int64_t kHour = 3600 * kSecond;
  constexpr std::int64_t kDay = 24 * kHour;
  constexpr std::uint64_t kMiB = 1u << 20;
  const std::string key = "history.clickhouse.";
  all.push_back(text(key + "hosts", options.hosts,
                     "http(s)://host:port of a shared history in ClickHouse, several separated by commas; empty = none"));
  all.push_back(text(key + "database", options.database, "made when missing; letters, digits and _, no digit first"));
  all.push_back(text(key + "user", options.user, "who logs in"));
  all.push_back(text(key + "password_file", options.password_file, "file that holds the password; empty = no password"));
  all.push_back(text(key + "password_env", options.password_env, "or an environment variable that does"));
  all.push_back(text(key + "ca_file", options.ca_file, "PEM file of authorities for https hosts; empty = the system's"));
  all.push_back(choice(key + "layout", options.layout, {"plain", "replicated", "sharded", "sharded_replicated"},
                       "kind of the tables that are made there"));
  all.push_back(text(key + "cluster", options.cluster, "of sharded tables: its name in ClickHouse's remote_servers"));
  all.push_back(choice(key + "compression", options.compression, {"none", "gzip"}, "of what is sent; gzip for a slow network"));
  all.push_back(flag(key + "required", options.required, "clients keep reports until they are there, not only on this disk"));
  all.push_back(duration(key + "every", options.every, 100, 60 * kSecond, "a batch leaves this often"));
  all.push_back(duration(key + "timeout", options.timeout, 100, kHour, "of one request"));
  all.push_back(number(key + "batch_records", options.batch_records, 10'000, 1'000'000, "no more in one batch"));
  all.push_back(size(
      key + "max_lag", [&options] { return options.max_lag_bytes; },
      [&options](std::uint64_t value) { options.max_lag_bytes = value; }, kMiB, std::uint64_t{1} << 50,
      "reports that wait for it are kept whole up to this much; beyond it the oldest keep only summaries"));
  all.push_back(duration(key + "max_lag_age", options.max_lag_age, kSecond, 365 * kDay,
                         "and kept from all other limits no longer than this"));
  all.push_back(duration(key + "keep_log", options.keep_log, kHour, 365 * kDay,
                         "reports as received, that a takeover needs, stay there this long"));
}

}  // namespace scalewatch::app
