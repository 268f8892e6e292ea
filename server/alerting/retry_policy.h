// When an undelivered notice is tried again, and when it is given up. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

struct RetryOptions {
  // No answer, or one that asks for patience: full jitter between backoff_min and a bound that doubles up to backoff_max.
  std::chrono::milliseconds backoff_min{1000};
  std::chrono::milliseconds backoff_max{300'000};
  std::uint32_t unanswered_tries = 2000;  // about three days, then it is given up
  // The receiver says that the request is wrong: tried slowly, for a person may mend the sink's configuration meanwhile.
  std::chrono::milliseconds rejected_every{60'000};
  std::uint32_t rejected_tries = 60;          // about an hour
  std::uint32_t rejected_tries_blocking = 3;  // when a newer notice of the same alert waits behind it
};

struct Decision {
  enum class What : std::uint8_t { kDelivered, kAgain, kGiveUp };
  What what = What::kDelivered;
  std::chrono::milliseconds delay{0};  // kAgain
};

// tries: those made, this one included. blocking: a newer notice waits behind this one.
Decision decide(const RetryOptions& options, Verdict verdict, std::uint32_t tries, bool blocking,
                std::optional<std::chrono::milliseconds> retry_after, std::minstd_rand& random);

// One line of printable ASCII, at most 300 bytes: "HTTP 500: the beginning of its body", or why there is no answer.
std::string failure_text(const HttpResponse& response);

}  // namespace scalewatch::alerting
