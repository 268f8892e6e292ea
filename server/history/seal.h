// A checksum behind a stored message, so that bytes which changed on disk are never taken for what was stored.
//
// Seven bytes: the Protobuf tag of field 15000, fixed32, and the CRC-32 (zlib's) of all before. A reader that does not know the
// field skips it. Messages that older servers wrote end without: files of schema version 3 have none of them. Thread-safe as
// connections are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/history/sqlite.h"

namespace scalewatch::history {

std::string sealed(std::string_view message);

// The message without its seal; absent when it is not what was stored. `always`: there are none without a seal.
std::optional<std::string_view> unsealed(std::string_view stored, bool always);
// Of a column of a query's row; valid until its next step.
std::optional<std::string_view> unsealed(const Query& query, int column);

// The same as a message; false also when it can't be parsed.
template <class Message>
bool parse_sealed(const Query& query, int column, Message& message) {
  const auto bytes = unsealed(query, column);
  return bytes && message.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()));
}

}  // namespace scalewatch::history
