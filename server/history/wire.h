// Protobuf's encoding, written and read by hand: for lists whose entries are mostly stored encoded already, or would only be
// built to be encoded. Pure and thread-safe.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace scalewatch::history::wire {

// Appends a field with a varint; as proto3 does, nothing for 0.
void put_number(int field, std::int64_t value, std::string& out);
// Appends a field with a length: a text, bytes, or a message that is encoded already.
void put_bytes(int field, std::string_view value, std::string& out);
void put_message(int field, const google::protobuf::MessageLite& message, std::string& out);

struct Field {
  int number = 0;
  std::size_t size = 0;      // bytes, with its tag
  std::string_view content;  // of one with a length; else empty
};
// Takes a field off the front of `bytes`; false when they begin with none.
bool take(std::string_view& bytes, Field& field);

}  // namespace scalewatch::history::wire
