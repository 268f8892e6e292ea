// Which hosts the server sends alerts to: so that whoever may write a sink's address can't make the server speak to the
// metadata service of its cloud, or to what listens on its own machine only. Plain values, pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct sockaddr;

namespace scalewatch::alerting {

struct Destinations {
  // Shell patterns of host names and addresses, in any case: hooks.example.org, *.example.org, 10.0.0.7, [fd00::7]. Empty: all
  // hosts but link-local ones and metadata services (169.254.0.0/16, fe80::/10, fd00:ec2::254) and, unless the next says
  // otherwise, loopback.
  std::vector<std::string> hosts;
  bool loopback = true;  // 127.0.0.0/8, ::1 and localhost, written as such, need no listing while hosts is empty

  // "a, b c" as a list; what lies between is commas or spaces.
  static std::vector<std::string> parse(std::string_view text);

  // Why nothing is sent to the host of an address, as it stands there; empty when it may be.
  [[nodiscard]] std::string refusal(const std::string& host) const;
  // The same for where the host's name led. One that is listed may lead anywhere.
  [[nodiscard]] std::string refusal(const std::string& host, const sockaddr& address) const;

 private:
  [[nodiscard]] bool lists(std::string host) const;
};

// Loopback by its name or its digits.
bool is_loopback_host(std::string host);

}  // namespace scalewatch::alerting
