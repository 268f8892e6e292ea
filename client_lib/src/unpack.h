// Reads scalewatch.v1.ServerMessage without Protobuf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "client_lib/src/types.h"

namespace scalewatch::client {

struct HelloAck {
  std::uint64_t resume_after_seq = 0;
  bool need_table = false;
  std::uint32_t max_message_bytes = 0;  // 0 = not said
  bool stop = false;                    // a directive in force says stop
};
struct Ack {
  std::uint64_t folded_seq = 0;
  std::uint64_t durable_seq = 0;
};
struct Directive {
  bool stop = false;
};
struct Fault {
  FaultCause cause = FaultCause::kUnspecified;
  std::string message;
  std::uint64_t seq = 0;
};
// monostate: a kind that this client does not know; to be passed over.
using ServerMessage = std::variant<std::monostate, HelloAck, Ack, Directive, Fault>;

// nullopt: not a valid message.
[[nodiscard]] std::optional<ServerMessage> unpack(std::string_view bytes);

}  // namespace scalewatch::client
