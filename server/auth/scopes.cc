#include "server/auth/scopes.h"

#include <fnmatch.h>

#include <algorithm>

namespace scalewatch::auth {

namespace {

constexpr std::size_t kMaxPattern = 256;
constexpr std::size_t kMaxPatterns = 64;  // of a kind

bool matches(const std::vector<std::string>& patterns, const std::string& run) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), run.c_str(), 0) == 0; });
}

bool has_all(const std::vector<std::string>& patterns) {
  return std::find(patterns.begin(), patterns.end(), "*") != patterns.end();
}

}  // namespace

Scopes Scopes::all() {
  Scopes out;
  out.ingest = out.read = out.operate = {"*"};
  out.admin = true;
  return out;
}

bool Scopes::add(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string pattern(colon == std::string_view::npos ? "*" : text.substr(colon + 1));
  if (text == "admin") return admin = true;
  auto* const patterns = kind == "ingest" ? &ingest : kind == "read" ? &read : kind == "operate" ? &operate : nullptr;
  if (patterns == nullptr || patterns->size() >= kMaxPatterns) return false;
  if (pattern.empty() || pattern.size() > kMaxPattern) return false;
  if (std::any_of(pattern.begin(), pattern.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return false;
  patterns->push_back(pattern);
  return true;
}

std::vector<std::string> Scopes::texts() const {
  std::vector<std::string> out;
  const auto put = [&](const char* kind, const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) out.push_back(std::string(kind) + ":" + pattern);
  };
  put("ingest", ingest);
  put("read", read);
  put("operate", operate);
  if (admin) out.emplace_back("admin");
  return out;
}

bool Scopes::may_ingest(const std::string& run) const {
  return admin || matches(ingest, run);
}
bool Scopes::may_read(const std::string& run) const {
  return admin || matches(read, run);
}
bool Scopes::may_read_all() const {
  return admin || has_all(read);
}
bool Scopes::may_operate(const std::string& run) const {
  return admin || matches(operate, run);
}
bool Scopes::may_operate_all() const {
  return admin || has_all(operate);
}

}  // namespace scalewatch::auth
