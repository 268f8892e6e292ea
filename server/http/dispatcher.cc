#include "server/http/dispatcher.h"

#include <boost/asio/post.hpp>

#include <chrono>
#include <exception>
#include <utility>

#include "server/http/api.h"

namespace scalewatch::http {
namespace {

constexpr const char* kOthersName =
    "a server that asks for no token answers requests for an address, a name without dots, or the host of listen.public_url: "
    "set "
    "that to the name in this request's Host";

const std::string kNoRoute = "none";

Response busy(const std::string& why) {
  Response response = error_response(503, why);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

Dispatcher::Dispatcher(const Options& options, Router router, const Sources& sources)
    : max_queries_(options.api_threads + options.api_queue),
      max_unsent_bytes_(options.max_unsent_bytes),
      public_host_(options.own_names_only ? std::optional(options.public_host) : std::nullopt),
      router_(std::move(router)),
      gate_(sources.gate),
      answered_(sources.answered),
      pool_(options.api_threads) {}

Dispatcher::~Dispatcher() {
  stop();
}

void Dispatcher::stop() {
  pool_.stop();
  pool_.join();
}

Answer Dispatcher::answer(Response response) const {
  const std::size_t bytes = response.body.size();
  counters_->unsent_bytes += bytes;
  std::shared_ptr<void> unsent(nullptr, [counters = counters_, bytes](void*) { counters->unsent_bytes -= bytes; });
  return {std::move(response), std::move(unsent)};
}

Answer Dispatcher::run(const Route& route, const Call& call) const {
  try {
    Response response = route.handler(call);
    if (response.status == 403) refused(auth::Refusal::kScope);
    return answer(std::move(response));
  } catch (const std::exception& error) {
    return answer(error_response(500, error.what()));
  }
}

std::optional<Response> Dispatcher::admit(const Route& route, const Request& request, auth::Caller& caller,
                                          auth::Permit& permit) const {
  if (gate_ == nullptr || route.needs == Needs::kNothing) return std::nullopt;
  auth::Admission admission = gate_->admit(request.authorization, request.peer);
  if (!admission.ok()) {
    Response refused = error_response(http_status(admission.status.code), admission.status.message);
    if (refused.status == 401) refused.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"scalewatch\"");
    if (admission.retry_after_s > 0) refused.headers.emplace_back("Retry-After", std::to_string(admission.retry_after_s));
    return refused;
  }
  caller = std::move(admission.caller);
  if (route.needs == Needs::kReadAll && !caller.may_read_all()) {
    gate_->refused(auth::Refusal::kScope);
    return error_response(403, "this token may not read every run, which this page shows");
  }
  if (caller.token()) {
    permit = gate_->take_query(caller);
    if (!permit) return error_response(429, auth::kManyQueries);
  }
  return std::nullopt;
}

void Dispatcher::dispatch(std::shared_ptr<const Request> request, std::function<void(Answer)> done) {
  auto match = std::make_shared<Router::Match>(router_.match(*request));
  if (answered_) {
    done = [this, match, begun = std::chrono::steady_clock::now(), done = std::move(done)](Answer answer) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      answered_(match->route == nullptr ? kNoRoute : match->route->pattern, answer.response.status, took.count());
      done(std::move(answer));
    };
  }
  if (public_host_ && !is_own_name(request->host, *public_host_)) {
    refused(auth::Refusal::kRequest);
    return done(answer(error_response(421, kOthersName)));
  }
  if (match->route == nullptr) return done(answer(std::move(match->error)));
  auth::Caller caller;
  auth::Permit permit;
  if (auto refused = admit(*match->route, *request, caller, permit)) return done(answer(*std::move(refused)));
  if (match->route->speed == Speed::kQuick) {
    return done(run(*match->route, {*request, match->url, match->path, caller}));
  }
  if (counters_->unsent_bytes > max_unsent_bytes_) {
    refused(auth::Refusal::kQueries);
    return done(answer(busy("too many answers wait to be read; ask again")));
  }
  if (counters_->queries >= max_queries_) {
    refused(auth::Refusal::kQueries);
    return done(answer(busy("too many queries are waiting; ask again")));
  }
  // Counted down when the task goes, whether it ran or the pool was stopped before.
  ++counters_->queries;
  std::shared_ptr<void> query(nullptr, [counters = counters_](void*) { --counters->queries; });
  boost::asio::post(pool_, [this, match, request = std::move(request), done = std::move(done), query = std::move(query),
                            caller = std::move(caller), permit = std::move(permit)] {
    done(run(*match->route, {*request, match->url, match->path, caller}));
  });
}

}  // namespace scalewatch::http
