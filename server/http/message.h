// Requests and answers as plain values, so that handlers know nothing of sockets.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace scalewatch::http {

struct Request {
  std::string method;  // "GET", "POST", ...; a HEAD arrives as GET
  std::string target;  // as sent: path and query, still percent-encoded
  std::string content_type;
  std::string body;
  std::string authorization{};  // of the header; empty: none
  std::string peer{};           // address that it came from, without its port
  std::string host{};           // of the header, as sent; empty: none
};

struct Response {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

inline constexpr const char* kJson = "application/json";

// {"code":404,"message":"..."}: what every error looks like, except those of /healthz and /readyz.
Response error_response(unsigned status, const std::string& message);

}  // namespace scalewatch::http
