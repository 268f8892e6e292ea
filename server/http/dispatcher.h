// From a request to its answer: finds the route, runs it here or on the pool, and keeps the pool's queue and the answers'
// memory within bounds. Thread-safe.
#pragma once

#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "server/http/router.h"
#include "server/http/server.h"

namespace scalewatch::http {

// An answer and its share of the bytes that readers have not taken yet, given back when it goes.
struct Answer {
  Response response;
  std::shared_ptr<void> unsent;
};

class Dispatcher {
 public:
  // Of the sources only those that have to do with every request: who is let in, and who is told of answers.
  Dispatcher(const Options& options, Router router, const Sources& sources = {});
  ~Dispatcher();  // drops what waits, waits for what runs

  // Calls `done` once, from this thread or one of the pool; not at all when the dispatcher is stopped first.
  void dispatch(std::shared_ptr<const Request> request, std::function<void(Answer)> done);
  // Counts one that was turned away before it came here.
  void refused(auth::Refusal cause) const {
    if (gate_ != nullptr) gate_->refused(cause);
  }
  void stop();

 private:
  struct Counters {
    std::atomic<std::size_t> queries{0};  // waiting or running
    std::atomic<std::size_t> unsent_bytes{0};
  };
  Answer answer(Response response) const;
  Answer run(const Route& route, const Call& call) const;
  // Lets the caller in, and counts it; an answer for one that is not.
  std::optional<Response> admit(const Route& route, const Request& request, auth::Caller& caller, auth::Permit& permit) const;

  const std::size_t max_queries_;
  const std::size_t max_unsent_bytes_;
  const std::optional<std::string> public_host_;  // nothing: any name will do
  const Router router_;
  auth::Gate* const gate_;
  const decltype(Sources::answered) answered_;
  const std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
  boost::asio::thread_pool pool_;
};

}  // namespace scalewatch::http
