#include "server/alerting/retry_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace scalewatch::alerting {

namespace {

using Millis = std::chrono::milliseconds;

Millis backoff(const RetryOptions& options, std::uint32_t tries, std::minstd_rand& random) {
  const auto least = options.backoff_min.count();
  const auto most = std::min(options.backoff_max.count(), least << std::min(tries, 20U));
  return Millis(std::uniform_int_distribution<Millis::rep>(least, std::max(least, most))(random));
}

}  // namespace

Decision decide(const RetryOptions& options, Verdict verdict, std::uint32_t tries, bool blocking,
                std::optional<Millis> retry_after, std::minstd_rand& random) {
  using What = Decision::What;
  if (verdict == Verdict::kDelivered) return {What::kDelivered, Millis(0)};
  if (verdict == Verdict::kRejected) {
    const std::uint32_t most =
        blocking ? std::min(options.rejected_tries_blocking, options.rejected_tries) : options.rejected_tries;
    if (tries >= most) return {What::kGiveUp, Millis(0)};
    return {What::kAgain, options.rejected_every};
  }
  if (tries >= options.unanswered_tries) return {What::kGiveUp, Millis(0)};
  return {What::kAgain, std::max(backoff(options, tries, random), retry_after.value_or(Millis(0)))};
}

std::string failure_text(const HttpResponse& response) {
  std::string out;
  if (response.status == 0) {
    out = response.error;
  } else {
    out = response.error.empty() ? fmt::format("HTTP {}", response.status) : response.error;
    if (response.status >= 300 && response.status < 400)
      out += " (redirects are not followed: set the sink's url to the target)";
    if (!response.body.empty()) out += ": " + response.body;
  }
  constexpr std::size_t kMaxBytes = 300;
  if (out.size() > kMaxBytes) out.resize(kMaxBytes);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

}  // namespace scalewatch::alerting
