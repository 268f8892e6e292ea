// Hashes that sinks need. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace scalewatch::alerting {

// HMAC-SHA256 (RFC 2104) in lower-case hexadecimal digits.
std::string hmac_sha256(std::string_view key, std::string_view text);
// SHA-256 likewise.
std::string sha256(std::string_view text);

}  // namespace scalewatch::alerting
