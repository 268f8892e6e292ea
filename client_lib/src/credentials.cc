#include "client_lib/src/credentials.h"

#include <cstddef>
#include <fstream>
#include <string_view>

namespace scalewatch::client {
namespace {

constexpr std::size_t kMaxFileBytes = 4U << 20;
// Where Debian's and Red Hat's systems keep the authorities that they trust.
constexpr const char* kSystemAuthorities[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  char block[4096];
  while (in && text.size() < kMaxFileBytes) {
    in.read(block, sizeof block);
    text.append(block, static_cast<std::size_t>(in.gcount()));
  }
  return text;
}

std::string needed(const char* what, const std::string& path, std::string& fault) {
  if (path.empty()) return {};
  std::string text = contents(path);
  if (text.empty() && fault.empty()) fault = std::string(what) + ": " + path + " cannot be read, or is empty";
  return text;
}

bool is_token(std::string_view text) {
  return text.substr(0, 4) == "swt_" && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567_") == std::string_view::npos &&
         text.size() < 256;
}

}  // namespace

Security read_security(const Credentials& credentials, std::string& fault) {
  fault.clear();
  Security out;
  out.tls = credentials.tls;
  out.token = credentials.token.empty() ? needed("token_file", credentials.token_file, fault) : credentials.token;
  while (!out.token.empty() && (out.token.back() == '\n' || out.token.back() == '\r' || out.token.back() == ' ')) {
    out.token.pop_back();
  }
  if (!out.token.empty() && !is_token(out.token)) {
    out.token.clear();
    if (fault.empty()) {
      fault = credentials.token.empty() ? "token_file: " + credentials.token_file + " holds no token" : "token is no token";
    }
  }
  if (!out.tls) return out;
  out.authorities = needed("ca_file", credentials.ca_file, fault);
  for (const char* path : kSystemAuthorities) {
    if (credentials.ca_file.empty() && out.authorities.empty()) out.authorities = contents(path);
  }
  out.certificate = needed("cert_file", credentials.cert_file, fault);
  out.key = needed("key_file", credentials.key_file, fault);
  if (credentials.cert_file.empty() != credentials.key_file.empty() && fault.empty()) {
    fault = "cert_file and key_file go together: one of them is missing";
  }
  return out;
}

bool on_this_machine(const std::string& server) {
  for (const char* prefix : {"127.", "localhost:", "[::1]:", "unix:"}) {
    if (server.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

bool take_schemes(std::string& servers) {
  bool found = false;
  for (std::size_t at = 0; at != std::string::npos && at < servers.size();) {
    while (at < servers.size() && servers[at] == ' ') ++at;
    for (const std::string_view scheme : {"https://", "tls://"}) {
      if (servers.compare(at, scheme.size(), scheme) == 0) {
        servers.erase(at, scheme.size());
        found = true;
        break;
      }
    }
    at = servers.find(',', at);
    if (at != std::string::npos) ++at;
  }
  return found;
}

}  // namespace scalewatch::client
