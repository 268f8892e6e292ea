#include "server/alerting/destinations.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace scalewatch::alerting {

namespace {

enum class Kind : std::uint8_t { kOther, kLoopback, kLinkLocal };

Kind kind_of(std::uint32_t ipv4) {
  // 0.0.0.0 leads to this machine.
  if (ipv4 >> 24U == 127 || ipv4 == 0) return Kind::kLoopback;
  return ipv4 >> 16U == 0xa9fe ? Kind::kLinkLocal : Kind::kOther;
}

Kind kind_of(const in6_addr& ipv6) {
  // Where AWS has its metadata, and what a translator of IPv6 (64:ff9b::/96) makes an IPv4 address of.
  constexpr std::array<std::uint8_t, 16> kMetadata{0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54};
  constexpr std::array<std::uint8_t, 12> kTranslated{0x00, 0x64, 0xff, 0x9b};
  if (std::memcmp(ipv6.s6_addr, kMetadata.data(), kMetadata.size()) == 0) return Kind::kLinkLocal;
  const bool translated = std::memcmp(ipv6.s6_addr, kTranslated.data(), kTranslated.size()) == 0;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6) || translated) {
    std::uint32_t last = 0;
    std::memcpy(&last, ipv6.s6_addr + 12, sizeof last);
    return kind_of(ntohl(last));
  }
  if (IN6_IS_ADDR_LOOPBACK(&ipv6) || IN6_IS_ADDR_UNSPECIFIED(&ipv6)) return Kind::kLoopback;
  return IN6_IS_ADDR_LINKLOCAL(&ipv6) ? Kind::kLinkLocal : Kind::kOther;
}

Kind kind_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof in);
    return kind_of(ntohl(in.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof in);
    return kind_of(in.sin6_addr);
  }
  return Kind::kOther;
}

// Lower case, without brackets, zone and the dot at the end.
std::string plain(std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.find(':') != std::string::npos) host = host.substr(0, host.find('%'));
  if (host.ends_with('.')) host.pop_back();
  std::transform(host.begin(), host.end(), host.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return host;
}

Kind kind_of_name(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost")) return Kind::kLoopback;
  in_addr ipv4{};
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return kind_of(ntohl(ipv4.s_addr));
  in6_addr ipv6{};
  if (inet_pton(AF_INET6, host.c_str(), &ipv6) == 1) return kind_of(ipv6);
  return Kind::kOther;
}

std::string refusal_of(Kind kind, bool loopback, const std::string& what) {
  if (kind == Kind::kLinkLocal) {
    return what + " is link-local, where clouds have their metadata; list the host in alerting.allowed_hosts if it is meant";
  }
  if (kind == Kind::kLoopback && !loopback) {
    return what +
           " is this machine itself, while others reach this server; list the host in alerting.allowed_hosts if it is meant";
  }
  return {};
}

}  // namespace

std::vector<std::string> Destinations::parse(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(", \t"), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool Destinations::lists(std::string host) const {
  host = plain(std::move(host));
  // 10.0.0.* is a pattern of addresses: the name 10.0.0.example.org is none of them.
  const auto of_addresses = [](const std::string& text) {
    if (text.find(':') != std::string::npos) return true;
    return text.find_first_not_of("0123456789.*?") == std::string::npos &&
           text.find_first_of("0123456789") != std::string::npos;
  };
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& listed) {
    const std::string pattern = plain(listed);
    if (of_addresses(pattern) && !of_addresses(host)) return false;
    return fnmatch(pattern.c_str(), host.c_str(), 0) == 0;
  });
}

std::string Destinations::refusal(const std::string& host) const {
  if (lists(host)) return {};
  if (!hosts.empty()) return fmt::format("host {} is not in alerting.allowed_hosts", host);
  return refusal_of(kind_of_name(plain(host)), loopback, "host " + host);
}

std::string Destinations::refusal(const std::string& host, const sockaddr& address) const {
  // A list that does not have the host has refused it by its name.
  if (lists(host)) return {};
  const Kind kind = kind_of(address);
  const std::string what = fmt::format("where host {} leads", host);
  // Whoever writes localhost means it; a name of the network's that leads here is somebody else's doing.
  if (kind == Kind::kLoopback && kind_of_name(plain(host)) != Kind::kLoopback) {
    return what + " is this machine itself; list the host in alerting.allowed_hosts if it is meant";
  }
  return refusal_of(kind, loopback, what);
}

bool is_loopback_host(std::string host) {
  return kind_of_name(plain(std::move(host))) == Kind::kLoopback;
}

}  // namespace scalewatch::alerting
