// Outgoing HTTP and SMTP through libcurl, and local commands: many at once on one thread, none waiting for another.
//
// TLS is verified, redirects are not followed, responses are read up to 64 KiB, environment proxies are not used for loopback.
// Each request says where it may go: its host is checked when it starts, and so is every address that the host's name leads to
// before a connection is made.
// Not thread-safe, except wake().
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/alerting/command_runner.h"
#include "server/alerting/destinations.h"

namespace scalewatch::alerting {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  std::uint32_t timeout_ms = 10'000;  // of the whole request; connecting has at most 3,000 of it

  // Set: url is smtp:// or smtps://, and body the message.
  struct Mail {
    std::string from;
    std::vector<std::string> to;
    std::string user;  // empty: no login
    std::string password;
    bool tls = true;  // smtp:// is upgraded by STARTTLS, or nothing is sent
  };
  std::optional<Mail> mail{};
  // Not empty: this program is run with the body as its input, in place of a request.
  std::vector<std::string> command{};
  // It carries a secret, which receivers may repeat in any encoding: of the answer's body only the size is told.
  bool has_secrets = false;
  // So does its address: libcurl's own words on an error, which may name parts of it, are not told either.
  bool secret_url = false;
  // Where it may go. Behind a proxy only the host's name is checked, for the proxy alone knows where that leads.
  Destinations destinations{};
};

struct HttpResponse {
  int status = 0;        // 0 = no answer; SMTP's own; of a command 200 (exit status 0), 400 (65), else 0
  std::string error;     // what went wrong, when there is no answer; of SMTP whatever went wrong
  std::string body;      // its beginning, at most 512 bytes; where the request has_secrets, its size in words
  bool refused = false;  // its destination is none that the operator allows: nothing was sent
  std::optional<std::chrono::milliseconds> retry_after;
  std::chrono::duration<double> took{0};
};

// What is wrong with an address ("is empty", "must begin with http:// or https://", ...); empty when it is a usable one.
std::string url_fault(const std::string& url);
// The same of smtp:// and smtps://.
std::string mail_url_fault(const std::string& url);
// Of an address that has no fault: its host, an IPv6 address in brackets.
std::string url_host(const std::string& url);
// Whether it says more than scheme, host and port: what follows may be a secret.
bool url_has_more(const std::string& url);

class HttpSender {
 public:
  struct Done {
    std::uint64_t id = 0;
    HttpResponse response;
  };

  HttpSender();   // throws std::runtime_error when libcurl can't start
  ~HttpSender();  // abandons what is in flight
  HttpSender(const HttpSender&) = delete;
  HttpSender& operator=(const HttpSender&) = delete;

  // Ids are the caller's, distinct among those in flight. Whatever goes wrong is told by poll().
  void start(std::uint64_t id, HttpRequest request);
  // Moves transfers on, waiting up to `wait` for something to happen or for wake(); returns those that ended.
  std::vector<Done> poll(std::chrono::milliseconds wait);
  [[nodiscard]] std::size_t in_flight() const { return transfers_.size() + unstarted_.size() + commands_.running(); }
  // Makes a poll() that waits, or else the next one, return at once. Thread-safe.
  void wake();

 private:
  struct Transfer;
  void* multi_ = nullptr;                                 // CURLM
  std::map<void*, std::unique_ptr<Transfer>> transfers_;  // by CURL handle
  std::vector<Done> unstarted_;
  CommandRunner commands_;
};

}  // namespace scalewatch::alerting
