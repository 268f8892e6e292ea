// Addresses that calls come from, without ports: what lockouts and audit lines name. Pure.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>
#include <string_view>

namespace scalewatch::auth {

// Of gRPC's peer(): "ipv4:10.0.0.7:5123" is "10.0.0.7", "ipv6:%5B2001:db8::7%5D:5123" is "2001:db8::7", else as it is.
inline std::string peer_of_grpc(std::string_view peer) {
  const auto colon = peer.find(':');
  if (!peer.starts_with("ipv4:") && !peer.starts_with("ipv6:")) return std::string(peer.substr(0, 128));
  peer.remove_prefix(colon + 1);
  if (const auto port = peer.rfind(':'); port != std::string_view::npos) peer = peer.substr(0, port);
  std::string out;
  for (std::size_t i = 0; i < peer.size(); ++i) {
    const std::string_view escaped = peer.substr(i, 3);
    if (escaped == "%5B" || escaped == "%5D" || escaped == "%5b" || escaped == "%5d") {
      i += 2;
    } else if (peer[i] != '[' && peer[i] != ']') {
      out.push_back(peer[i]);
    }
  }
  return out;
}

// Whoever has an IPv6 address has 2^64 of them: what failures are counted by is its network, the first 64 bits.
inline std::string network_of(const std::string& peer) {
  in6_addr address{};
  if (inet_pton(AF_INET6, peer.c_str(), &address) != 1) return peer;
  for (int i = 8; i < 16; ++i) address.s6_addr[i] = 0;
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, &address, text, sizeof text);
  return text;
}

}  // namespace scalewatch::auth
