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

}  // namespace scalewatch::http
