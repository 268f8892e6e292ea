#include "server/history/clickhouse/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "server/engine/ports/history_store.h"

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kMaxPassword = 4096;

}  // namespace

std::vector<std::string> hosts_of(const Options& options) {
  std::vector<std::string> parts;
  std::istringstream in(options.hosts);
  for (std::string part; std::getline(in, part, ',');) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(" /") + 1);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string read_password(const Options& options) {
  std::string password;
  if (!options.password_file.empty()) {
    std::ifstream in(options.password_file, std::ios::binary);
    password.resize(kMaxPassword);
    in.read(password.data(), static_cast<std::streamsize>(password.size()));
    password.resize(static_cast<std::size_t>(in.gcount()));
    if (!in.eof()) {
      throw engine::StoreError("history.clickhouse.password_file: " + options.password_file +
                                   (password.empty() ? " can't be read" : " is too long for a password"),
                               false);
    }
    while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) password.pop_back();
  } else if (!options.password_env.empty()) {
    const char* const value = std::getenv(options.password_env.c_str());
    if (value == nullptr)
      throw engine::StoreError("history.clickhouse.password_env: the variable " + options.password_env + " is not set", false);
    password = value;
  }
  return password;
}

std::string fault_of(const Options& options) {
  if (!options.enabled()) return options.required ? "history.clickhouse.required needs history.clickhouse.hosts" : "";
  for (const std::string& host : hosts_of(options)) {
    if (!host.starts_with("http://") && !host.starts_with("https://"))
      return "history.clickhouse.hosts: \"" + host + "\" must begin with http:// or https://";
    if (host.find('@') != std::string::npos)
      return "history.clickhouse.hosts: no user or password in an address; use history.clickhouse.user and .password_file";
  }
  const bool plain_name = !options.database.empty() &&
                          std::isdigit(static_cast<unsigned char>(options.database.front())) == 0 &&
                          std::all_of(options.database.begin(), options.database.end(),
                                      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
  if (!plain_name) return "history.clickhouse.database: letters, digits and _ only, and no digit first";
  if (options.sharded() && options.cluster.empty()) return "history.clickhouse.cluster: a sharded layout needs its name";
  if (!options.password_file.empty() && !options.password_env.empty())
    return "history.clickhouse.password_file and .password_env: give one of them";
  try {
    read_password(options);
  } catch (const engine::StoreError& error) {
    return error.what();
  }
  return "";
}

}  // namespace scalewatch::clickhouse
