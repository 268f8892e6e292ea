#include "client_lib/src/servers.h"

#include <algorithm>

#include "client_lib/src/text.h"

namespace scalewatch::client {
namespace {

constexpr std::size_t kMostServers = 64;
constexpr std::string_view kDns = "dns:///";

}  // namespace

bool is_server(std::string_view text) noexcept {
  return is_server_address(text.substr(0, kDns.size()) == kDns ? text.substr(kDns.size()) : text);
}

std::vector<std::string> split_servers(std::string_view list) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string_view server = list.substr(begin, end - begin);
    while (!server.empty() && server.front() == ' ') server.remove_prefix(1);
    while (!server.empty() && server.back() == ' ') server.remove_suffix(1);
    if (!is_server(server) || all.size() == kMostServers) return {};
    all.emplace_back(server);
    begin = end + 1;
  }
  return all;
}

bool Servers::moved(const std::string& owner) {
  if (moves_ == kMostMoves || !is_server_address(owner)) return false;
  ++moves_;
  owner_ = owner;
  return true;
}

void Servers::failed() {
  moves_ = 0;
  if (owner_.empty()) {
    at_ = (at_ + 1) % all_.size();
  } else {
    owner_.clear();  // back to the list, where somebody knows who has the run now
  }
}

}  // namespace scalewatch::client
