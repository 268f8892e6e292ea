// Page tokens and the checks of what requests ask for. Pure and thread-safe; bad input throws ApiError that names the field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace scalewatch::history {

// Opaque to callers. `kind` tells the lists apart; fields hold no control characters.
std::string make_token(char kind, const std::vector<std::string>& fields);
// The fields of a token of this kind; empty for an empty token.
std::vector<std::string> read_token(const std::string& token, char kind, std::size_t fields);
// A number in a token.
std::int64_t token_number(const std::string& field);

// The page size to use: 0 = 100; throws below 0 and beyond 1,000.
std::size_t checked_page_size(std::int32_t page_size);
// A limit that may be left 0; throws beyond `most`.
std::size_t checked_limit(const char* field, std::uint32_t value, std::size_t default_value, std::size_t most);
[[noreturn]] void invalid(const std::string& field, const std::string& what);

}  // namespace scalewatch::history
