#include "server/alerting/secret.h"

#include <cstdlib>
#include <fstream>

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxBytes = 8192;

}  // namespace

std::optional<std::string> Secret::read() const {
  std::string value;
  if (!file.empty()) {
    std::ifstream in(file, std::ios::binary);
    value.resize(kMaxBytes + 1);
    in.read(value.data(), static_cast<std::streamsize>(value.size()));
    if (in.bad() || (!in && !in.eof())) return std::nullopt;
    value.resize(static_cast<std::size_t>(in.gcount()));
  } else if (const char* found = std::getenv(env.c_str()); found != nullptr) {
    value = found;
  }
  value.erase(value.find_last_not_of("\r\n") + 1);
  if (value.empty() || value.size() > kMaxBytes) return std::nullopt;
  return prefix + value;
}

std::string Secret::fault() const {
  if (!file.empty() && !env.empty()) return "is given as a file and as an environment variable: choose one";
  if (read()) return {};
  return file.empty() ? "environment variable " + env + " is not set" : "file " + file + " cannot be read or is empty";
}

}  // namespace scalewatch::alerting
