// Which server is connected to next: those of a list in turn, and the one that a server names as the run's owner.
//
// Owned by the client's thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::client {

// What is_server_address takes, or dns:///host:port (a name that stands for several servers).
[[nodiscard]] bool is_server(std::string_view text) noexcept;
// Separated by commas; empty when one of them is no server, or more than 64 are given.
[[nodiscard]] std::vector<std::string> split_servers(std::string_view list);

class Servers {
 public:
  // Where a run has gone may be asked of so many servers in a row; then the list is gone through again, with pauses.
  static constexpr unsigned kMostMoves = 4;

  // all: not empty. first: where to begin, so that not every client begins at the same server.
  Servers(std::vector<std::string> all, std::size_t first) : all_(std::move(all)), at_(first % all_.size()) {}

  [[nodiscard]] const std::string& current() const { return owner_.empty() ? all_[at_] : owner_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  // The server says who has the run. False: that was one too many in a row, or can't be a server.
  bool moved(const std::string& owner);
  // How many in a row.
  [[nodiscard]] unsigned moves() const { return moves_; }
  // The current one did not answer, or refused.
  void failed();
  // It has taken the stream.
  void greeted() { moves_ = 0; }

 private:
  std::vector<std::string> all_;
  std::size_t at_;
  std::string owner_;  // empty: one of the list
  unsigned moves_ = 0;
};

}  // namespace scalewatch::client
