// Reads scalewatch.v1.ServerMessage without Protobuf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client_lib/src/types.h"

namespace scalewatch::client {

struct Directive {
  std::string id;
  std::int64_t expires_ms = 0;       // server's clock; 0 = never
  std::uint64_t until_attempt = 0;   // 0 = no end
  std::vector<std::string> tensors;  // patterns; empty = all
  std::vector<std::int32_t> roles;   // empty = all
  std::uint32_t every = 0;           // 0 = as the trainer's own sampling has it
  std::uint32_t report_every = 0;    // 0 = each
  bool send_ring = false;
  bool stop = false;
};
struct HelloAck {
  std::uint64_t resume_after_seq = 0;
  bool need_table = false;
  std::uint32_t max_message_bytes = 0;  // 0 = not said
  std::int64_t server_time_ms = 0;      // 0 = not said
  bool keep_until_replicated = false;   // buffers are freed by Ack.replicated_seq
  std::vector<Directive> directives;
};
struct Ack {
  std::uint64_t folded_seq = 0;
  std::uint64_t durable_seq = 0;
  std::uint64_t replicated_seq = 0;
};
struct Fault {
  FaultCause cause = FaultCause::kUnspecified;
  std::string message;
  std::uint64_t seq = 0;
  std::string server;  // kMoved: who has the run
};
// monostate: a kind that this client does not know; to be passed over.
using ServerMessage = std::variant<std::monostate, HelloAck, Ack, Directive, Fault>;

// nullopt: not a valid message.
[[nodiscard]] std::optional<ServerMessage> unpack(std::string_view bytes);

}  // namespace scalewatch::client
