// Which handler a target belongs to: a table of patterns, looked through in order. Immutable once built, so thread-safe.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/auth/caller.h"
#include "server/http/fields.h"
#include "server/http/message.h"
#include "server/http/url.h"

namespace scalewatch::http {

// A matched request.
struct Call {
  const Request& request;
  const Url& url;
  const Parameters& path;  // the pattern's {names} with their segments
  auth::Caller caller{};   // anybody where no tokens are asked for
};
using Handler = std::function<Response(const Call&)>;

enum class Speed : std::uint8_t {
  kQuick,   // answered on the I/O thread: no store, no waiting
  kWorker,  // may read the store: runs on the bounded pool
};

// What the caller of a route must have, where tokens are asked for.
enum class Needs : std::uint8_t {
  kToken,    // one; the handler knows what it may see
  kNothing,  // not even that
  kReadAll,  // one that may read every run
};

struct Route {
  std::string method;   // "GET" or "POST"
  std::string pattern;  // "/api/v1/runs/{run}": a {name} takes one segment
  Speed speed = Speed::kQuick;
  Handler handler;
  Needs needs = Needs::kToken;
};

class Router {
 public:
  explicit Router(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;  // null: `error` says why
    Url url;
    Parameters path;
    Response error;  // 400, 404 or 405 with Allow
  };
  [[nodiscard]] Match match(const Request& request) const;

 private:
  struct Entry {
    Route route;
    std::vector<std::string> segments;
  };
  std::vector<Entry> entries_;
};

}  // namespace scalewatch::http
