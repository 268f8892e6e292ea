// The servers that share the runs between them, and which of them a run belongs to.
//
// Rendezvous hashing (Thaler and Ravishankar, 1998: "highest random weight"): every server gives each run a weight, and the run
// belongs to the heaviest one that is there. A server that goes moves only its own runs, evenly over the others. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::fleet {

struct Instance {
  std::string name;     // as every server of the fleet calls it; part of the hash: renaming it moves its runs
  std::string address;  // host:port of its gRPC side
  bool operator==(const Instance&) const = default;
};

struct Options {
  std::string instances;     // "a=host:port, b=host:port"; empty: this server is alone
  std::string self;          // this server's name among them
  std::string token_file{};  // with the token that this server shows to the others; empty: none
  std::string ca{};          // file of the authorities that the others' certificates are checked against; empty: no TLS
  std::chrono::milliseconds probe_every{500};
  std::chrono::milliseconds down_after{2'000};  // without an answer for this long another server counts as gone
  std::chrono::milliseconds drain_for{20'000};  // a stopping server waits so long for the shared history
  [[nodiscard]] bool on() const { return !instances.empty(); }
};

// Throws std::invalid_argument with one line: an entry that is no name=host:port, a name or address that is there twice, `self`
// not among them, more than 100.
std::vector<Instance> parse_instances(const std::string& text, const std::string& self);

// Of (run, server); never changes between versions, or two of them would disagree.
std::uint64_t weight_of(std::string_view run, std::string_view instance);
// Indices into `all`, heaviest first; equal weights by name.
std::vector<std::size_t> ranking(std::string_view run, const std::vector<Instance>& all);

}  // namespace scalewatch::fleet
