#include "server/ingest/stream_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/engine/report_codec.h"

namespace scalewatch::ingest {

namespace {

std::int64_t steady_ms() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
}

StreamEnd beyond(const std::string& what, std::uint64_t limit) {
  StreamEnd end;
  const std::string message = fmt::format("{}; this token may send at most {}", what, limit);
  end.fault.emplace();
  end.fault->set_cause(v1::FAULT_CAUSE_LIMIT);
  end.fault->set_message(message);
  end.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, message};
  return end;
}

}  // namespace

StreamEnd denied(const std::string& why, grpc::StatusCode code) {
  StreamEnd end;
  end.fault.emplace();
  end.fault->set_cause(v1::FAULT_CAUSE_DENIED);
  end.fault->set_message(why);
  end.status = {code, why};
  return end;
}

StreamEnd try_later(const std::string& why) {
  return {std::nullopt, {grpc::StatusCode::RESOURCE_EXHAUSTED, why}};
}

StreamGuard::StreamGuard(auth::Gate& gate, auth::Caller caller, auth::Permit place, std::function<void(const StreamEnd&)> end)
    : gate_(gate), caller_(std::move(caller)), place_(std::move(place)) {
  hold_ = gate_.hold([this] { return may_go_on(); }, [this, end = std::move(end)] { end(why_not()); });
}

bool StreamGuard::may_go_on() const {
  const std::lock_guard lock(mutex_);
  if (run_.empty()) return std::chrono::steady_clock::now() - began_ < gate_.options().hello_within && caller_.known();
  return caller_.may_ingest(run_);
}

StreamEnd StreamGuard::why_not() const {
  const std::lock_guard lock(mutex_);
  const bool known = caller_.known();
  gate_.refused(known && run_.empty() ? auth::Refusal::kNoHello : auth::Refusal::kEnded);
  if (!known) return denied("the token of this stream was revoked or has expired", grpc::StatusCode::UNAUTHENTICATED);
  if (!run_.empty()) return denied("the token of this stream may not send run " + run_ + " any more");
  return {
      std::nullopt,
      {grpc::StatusCode::DEADLINE_EXCEEDED, fmt::format("no Hello came within {} ms", gate_.options().hello_within.count())}};
}

StreamEnd StreamGuard::later(auth::Refusal cause, const std::string& why) {
  gate_.refused(cause);
  return try_later(why);
}

// Its limits of runs meet a Hello, those of tensors what follows.
std::optional<StreamEnd> StreamGuard::ended(const v1::Fault& fault) {
  if (fault.cause() != v1::FAULT_CAUSE_LIMIT) return std::nullopt;
  if (!told_tensors_) return later(auth::Refusal::kRuns, fault.message());  // there will be fewer, as runs end
  gate_.refused(auth::Refusal::kTensors);
  return std::nullopt;
}

std::optional<StreamEnd> StreamGuard::greet(const v1::Hello& hello) {
  const std::string& run = hello.run();
  if (!caller_.may_ingest(run)) {
    StreamEnd end = denied(caller_.known() ? "this token may not send run " + run + ": its ingest scopes name other runs"
                                           : "this token was revoked or has expired");
    gate_.refused(auth::Refusal::kScope);
    gate_.audit(caller_, "Ingest", run, {}, {engine::Status::kPermissionDenied, end.status.error_message()});
    return end;
  }
  if (const auto& token = caller_.token()) {
    if (stream_ == nullptr) stream_ = auth::Token::take_stream(token);
    if (stream_ == nullptr) return later(auth::Refusal::kStreams, "this token has as many streams open as it may");
    run_permit_ = auth::Token::take_run(token, run);
    if (run_permit_ == nullptr) return later(auth::Refusal::kRuns, "this token sends as many runs at once as it may");
  }
  const std::lock_guard lock(mutex_);
  run_ = run;
  return std::nullopt;
}

// A message is judged by what came before it, so that a large one gets in at last.
std::optional<StreamEnd> StreamGuard::charge(const v1::ClientMessage& message, std::size_t bytes) {
  const std::int64_t now = steady_ms();
  const auto& token = caller_.token();
  const std::int64_t debt = std::max(gate_.records().debt(now), token ? token->records.debt(now) : 0);
  if (debt > kLongestWait.count()) return later(auth::Refusal::kRecords, "more records a second came than are allowed");
  if (token && token->bytes.debt(now) > 0) {
    return later(auth::Refusal::kBytes, "this token has sent as many bytes as it may for now");
  }
  const auto records = message.has_report() ? static_cast<double>(engine::record_count(message.report())) : 0.0;
  std::int64_t wait = gate_.records().take(records, now);
  if (token) {
    wait = std::max(wait, token->records.take(records, now));
    token->bytes.take(static_cast<double>(bytes), now);
  }
  wait_ = std::min(std::chrono::milliseconds(wait), kLongestWait);
  if (wait > 0) gate_.slowed();
  return std::nullopt;
}

std::optional<StreamEnd> StreamGuard::check(const v1::ClientMessage& message, std::size_t bytes) {
  if (const auto& token = caller_.token()) {
    const auto record = token->record();
    if (record == nullptr) return why_not();
    const auth::TokenLimits& limits = record->limits;
    if (limits.message_bytes != 0 && bytes > limits.message_bytes) {
      gate_.refused(auth::Refusal::kMessageBytes);
      return beyond(fmt::format("a message of {} bytes", bytes), limits.message_bytes);
    }
    if (message.has_table() && limits.tensors != 0) {
      const std::uint64_t tensors =
          static_cast<std::uint64_t>(message.table().first_id()) + static_cast<std::uint64_t>(message.table().infos_size());
      if (tensors > limits.tensors) {
        gate_.refused(auth::Refusal::kTensors);
        return beyond(fmt::format("{} tensors", tensors), limits.tensors);
      }
    }
  }
  if (message.has_table()) told_tensors_ = true;
  if (message.has_hello()) {
    if (auto end = greet(message.hello())) return end;
  }
  return charge(message, bytes);
}

}  // namespace scalewatch::ingest
