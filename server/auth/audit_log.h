// Who did what: one line of JSON for every call that changes something or was refused, in a file of its own, else in the log.
//
//   {"time": "2026-11-30T04:00:00.000Z", "token": ID, "name": ..., "peer": ..., "call": ..., "target": ..., "who": ...,
//    "result": "OK" or a code, "message": ...}
// `token` and `name` are empty where no token is asked for; `who` is what the caller claims to be. Values are cut at 512 bytes,
// and are never secrets. The file is opened for each line, mode 0600, so that it may be moved away at any time. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace scalewatch::auth {

struct AuditEntry {
  std::string token;  // id
  std::string name;
  std::string peer;
  std::string_view call;
  std::string target;
  std::string who;
  std::string result;
  std::string message;
};

// Without its end. Pure.
std::string audit_line(const AuditEntry& entry, std::int64_t unix_ms);

class AuditLog {
 public:
  explicit AuditLog(std::string file) : file_(std::move(file)) {}
  void write(const AuditEntry& entry) const;
  [[nodiscard]] bool has_file() const { return !file_.empty(); }
  // Why lines can't be written to the file; empty when they can, or there is none.
  [[nodiscard]] std::string fault() const;

 private:
  const std::string file_;
};

}  // namespace scalewatch::auth
