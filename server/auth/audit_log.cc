#include "server/auth/audit_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

namespace scalewatch::auth {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxValue = 512;

std::string cut(std::string text) {
  if (text.size() > kMaxValue) text = text.substr(0, kMaxValue) + "...";
  return text;
}

int open_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

// In one call, so that lines of several servers do not mix.
bool append(const std::string& path, const std::string& line) {
  const int file = open_file(path);
  if (file < 0) return false;
  const bool done = ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  return ::close(file) == 0 && done;
}

}  // namespace

std::string audit_line(const AuditEntry& entry, std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  const Json json{{"time", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), unix_ms % 1000)},
                  {"token", cut(entry.token)},
                  {"name", cut(entry.name)},
                  {"peer", cut(entry.peer)},
                  {"call", cut(std::string(entry.call))},
                  {"target", cut(entry.target)},
                  {"who", cut(entry.who)},
                  {"result", entry.result},
                  {"message", cut(entry.message)}};
  // All but ASCII is escaped: whoever reads it in a terminal is not spoken to by it.
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void AuditLog::write(const AuditEntry& entry) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string line = audit_line(entry, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  if (!file_.empty() && append(file_, line + "\n")) return;
  if (!file_.empty()) spdlog::error("the audit log {} cannot be written ({}); its line follows", file_, std::strerror(errno));
  spdlog::info("audit {}", line);
}

std::string AuditLog::fault() const {
  if (file_.empty()) return {};
  const int file = open_file(file_);
  if (file < 0) return fmt::format("{}: {}", file_, std::strerror(errno));
  ::close(file);
  return {};
}

}  // namespace scalewatch::auth
