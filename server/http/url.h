// Request targets. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scalewatch::http {

struct Url {
  std::vector<std::string> segments;                       // decoded, so that a segment may hold "/"; "/" has none
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order; a name without "=" has an empty value
};

// Nothing for a target that is not a path (or http://host/path), or is wrongly percent-encoded.
std::optional<Url> parse_target(std::string_view target);

// Whether a Host header names an address, a name that nobody can have on the Internet (no dots, or below localhost), or
// `public_host`. An empty one does.
bool is_own_name(std::string_view host, std::string_view public_host);

}  // namespace scalewatch::http
