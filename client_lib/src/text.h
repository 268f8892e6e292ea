// Checks on names that come from outside.
#pragma once

#include <cstddef>
#include <string_view>

namespace scalewatch::client {

// Valid UTF-8 (no overlong forms, no surrogates) without control characters (U+0000 to U+001F, U+007F to U+009F).
[[nodiscard]] bool is_clean_utf8(std::string_view text) noexcept;
// [a-zA-Z_][a-zA-Z0-9_]*
[[nodiscard]] bool is_identifier(std::string_view text) noexcept;
// host:port with a port of 1 to 65535, [v6]:port, or unix:path.
[[nodiscard]] bool is_server_address(std::string_view text) noexcept;

}  // namespace scalewatch::client
