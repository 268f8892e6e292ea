#include "server/http/router.h"

#include <optional>
#include <set>

namespace scalewatch::http {
namespace {

bool is_variable(const std::string& segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

std::optional<Parameters> match_path(const std::vector<std::string>& pattern, const std::vector<std::string>& segments) {
  if (pattern.size() != segments.size()) return std::nullopt;
  Parameters out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_variable(pattern[i])) {
      out.emplace_back(pattern[i].substr(1, pattern[i].size() - 2), segments[i]);
    } else if (pattern[i] != segments[i]) {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

Router::Router(std::vector<Route> routes) {
  for (Route& route : routes) {
    auto segments = parse_target(route.pattern).value_or(Url{}).segments;
    entries_.push_back({std::move(route), std::move(segments)});
  }
}

Router::Match Router::match(const Request& request) const {
  Match out;
  auto url = parse_target(request.target);
  if (!url) {
    out.error = error_response(400, "the request's target is not a path, or wrongly percent-encoded");
    return out;
  }
  out.url = *std::move(url);
  std::set<std::string> allowed;
  for (const Entry& entry : entries_) {
    auto path = match_path(entry.segments, out.url.segments);
    if (!path) continue;
    if (entry.route.method == request.method) {
      out.route = &entry.route;
      out.path = *std::move(path);
      return out;
    }
    allowed.insert(entry.route.method);
  }
  if (allowed.empty()) {
    out.error = error_response(404, "nothing is here; / lists what there is");
    return out;
  }
  if (allowed.contains("GET")) allowed.insert("HEAD");
  std::string allow;
  for (const std::string& method : allowed) allow += (allow.empty() ? "" : ", ") + method;
  out.error = error_response(405, request.method + " is not allowed here; allowed: " + allow);
  out.error.headers.emplace_back("Allow", allow);
  return out;
}

}  // namespace scalewatch::http
