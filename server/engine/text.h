// Checks on text that clients send. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

// What is wrong with a name ("is empty", "is longer than 512 bytes", "is not valid UTF-8", "has a control character"), or an
// empty string when it is valid: UTF-8, 1 to max_bytes bytes, no C0 or C1 control and no DEL.
std::string name_fault(std::string_view name, std::size_t max_bytes);

// Cuts at a character's edge to at most max_bytes.
std::string clipped(std::string_view text, std::size_t max_bytes);

// Shown between quotes in messages: clipped to 64 bytes, controls and broken bytes as '?'.
std::string shown(std::string_view text);

std::string to_hex(const Incarnation& incarnation);
// Throws std::runtime_error on anything but 32 hexadecimal digits.
Incarnation incarnation_from_hex(std::string_view hex);

}  // namespace scalewatch::engine
