// Who is turned away, and why: each is counted, for `scalewatch_refusals_total`. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace scalewatch::auth {

enum class Refusal : std::uint8_t {
  kNoToken,
  kWrongToken,    // not known, revoked or expired
  kLockedOut,     // after too many wrong ones
  kScope,         // the token is not for this
  kEnded,         // of what went on: its token was revoked, expired, or lost its scope
  kStreams,       // as the next ones: of the token, or of all together
  kRuns,          //
  kTensors,       // tensors of a stream, or the length of their names
  kMessageBytes,  //
  kRecords,       // a second
  kBytes,         // a day
  kQueries,       // calls at once
  kNoHello,       // a stream that said nothing
  kSlowReader,    // somebody who does not take what was asked for
  kConnections,   // of HTTP
  kRequest,       // of HTTP: no request, too large, or not whole in time
  kCount
};

inline constexpr std::size_t kRefusals = static_cast<std::size_t>(Refusal::kCount);

// As the label `cause` has them.
inline constexpr std::array<const char*, kRefusals> kRefusalNames{
    "no_token", "wrong_token",        "locked_out",    "scope",   "ended",    "streams",     "runs",        "tensors",
    "message",  "records_per_second", "bytes_per_day", "queries", "no_hello", "slow_reader", "connections", "request"};

class Refusals {
 public:
  void count(Refusal cause) { counts_.at(static_cast<std::size_t>(cause)).fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t of(Refusal cause) const { return counts_.at(static_cast<std::size_t>(cause)); }

 private:
  std::array<std::atomic<std::uint64_t>, kRefusals> counts_{};
};

}  // namespace scalewatch::auth
