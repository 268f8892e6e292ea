#include "client_lib/src/unpack.h"

#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>

namespace scalewatch::client {
namespace {

using protozero::pbf_reader;

constexpr std::size_t kMaxDirectives = 64;
constexpr std::size_t kMaxPatterns = 1024;

void read_roles(pbf_reader& in, std::vector<std::int32_t>& roles) {
  if (in.wire_type() == protozero::pbf_wire_type::length_delimited) {
    for (const std::int32_t role : in.get_packed_enum()) roles.push_back(role);
  } else {
    roles.push_back(in.get_enum());
  }
}

Directive read_directive(pbf_reader in) {
  Directive directive;
  while (in.next()) {
    switch (in.tag()) {
      case 1:
        directive.id = in.get_string();
        break;
      case 2:
        directive.expires_ms = in.get_int64();
        break;
      case 3:
        directive.until_attempt = in.get_uint64();
        break;
      case 4:
        if (directive.tensors.size() >= kMaxPatterns) {
          in.skip();
        } else {
          directive.tensors.push_back(in.get_string());
        }
        break;
      case 5:
        read_roles(in, directive.roles);
        break;
      case 6:
        directive.every = in.get_uint32();
        break;
      case 7:
        directive.send_ring = in.get_bool();
        break;
      case 8:
        directive.stop = in.get_bool();
        break;
      case 9:
        directive.report_every = in.get_uint32();
        break;
      default:
        in.skip();
    }
  }
  return directive;
}

HelloAck read_hello_ack(pbf_reader in) {
  HelloAck ack;
  while (in.next()) {
    switch (in.tag()) {
      case 1:
        ack.resume_after_seq = in.get_uint64();
        break;
      case 2:
        ack.need_table = in.get_bool();
        break;
      case 5: {
        pbf_reader limits = in.get_message();
        while (limits.next()) {
          if (limits.tag() == 3) {
            ack.max_message_bytes = limits.get_uint32();
          } else {
            limits.skip();
          }
        }
        break;
      }
      case 6:
        if (ack.directives.size() < kMaxDirectives) {
          ack.directives.push_back(read_directive(in.get_message()));
        } else {
          in.skip();
        }
        break;
      case 8:
        ack.server_time_ms = in.get_int64();
        break;
      case 9:
        ack.keep_until_replicated = in.get_bool();
        break;
      default:
        in.skip();
    }
  }
  return ack;
}

Ack read_ack(pbf_reader in) {
  Ack ack;
  while (in.next()) {
    if (in.tag() == 1) {
      ack.folded_seq = in.get_uint64();
    } else if (in.tag() == 2) {
      ack.durable_seq = in.get_uint64();
    } else if (in.tag() == 3) {
      ack.replicated_seq = in.get_uint64();
    } else {
      in.skip();
    }
  }
  return ack;
}

Fault read_fault(pbf_reader in) {
  Fault fault;
  while (in.next()) {
    switch (in.tag()) {
      case 1: {
        const std::int32_t cause = in.get_enum();
        if (cause > 0 && cause <= static_cast<int>(FaultCause::kDenied)) fault.cause = static_cast<FaultCause>(cause);
        break;
      }
      case 2:
        fault.message = in.get_string();
        break;
      case 3:
        fault.seq = in.get_uint64();
        break;
      case 4:
        fault.server = in.get_string();
        break;
      default:
        in.skip();
    }
  }
  return fault;
}

}  // namespace

std::optional<ServerMessage> unpack(std::string_view bytes) {
  try {
    ServerMessage message;
    pbf_reader in{bytes.data(), bytes.size()};
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          message = read_hello_ack(in.get_message());
          break;
        case 2:
          message = read_ack(in.get_message());
          break;
        case 3:
          message = read_directive(in.get_message());
          break;
        case 4:
          message = read_fault(in.get_message());
          break;
        default:
          in.skip();
      }
    }
    return message;
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

}  // namespace scalewatch::client
