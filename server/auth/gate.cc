#include "server/auth/gate.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <stdexcept>
#include <utility>

#include "server/auth/peer.h"
#include "server/auth/token.h"

namespace scalewatch::auth {

namespace {

using engine::Status;

constexpr std::chrono::milliseconds kLook{500};
constexpr double kBurstSeconds = 10;  // of all records together
constexpr const char* kNoToken =
    "a token is needed here: pass the one that `scalewatch admin token create` printed as --token-file FILE or "
    "SCALEWATCH_TOKEN_FILE, over HTTP as \"Authorization: Bearer TOKEN\"";
// One text for all causes: it does not tell which ids exist.
constexpr const char* kWrongToken = "this token is not known here, was revoked, or has expired";

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* code_name(Status::Code code) {
  switch (code) {
    case Status::kOk:
      return "OK";
    case Status::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Status::kNotFound:
      return "NOT_FOUND";
    case Status::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Status::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Status::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Status::kInternal:
      return "INTERNAL";
    case Status::kUnavailable:
      return "UNAVAILABLE";
    case Status::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

}  // namespace

Gate::Gate(GateOptions options) : options_(std::move(options)), audit_log_(options_.audit_log) {
  const auto rate = static_cast<double>(options_.max_records_per_second);
  records_.limit(rate, rate * kBurstSeconds);
  if (const std::string fault = audit_log_.fault(); !fault.empty()) throw std::runtime_error("auth.audit_log: " + fault);
  if (!open()) {
    stamp_ = FileStamp::of(options_.tokens_file);
    load();
  }
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "gate");
    std::unique_lock lock(stop_mutex_);
    while (!stop_changed_.wait_for(lock, kLook, [this] { return stopping_; })) {
      lock.unlock();
      refresh();
      check_holds();
      lock.lock();
    }
  });
}

Gate::~Gate() {
  {
    const std::lock_guard lock(stop_mutex_);
    stopping_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
}

// ---- the file -------------------------------------------------------------------------------------------------------

void Gate::load() {
  std::vector<TokenRecord> records = read_tokens(options_.tokens_file);
  Tokens next;
  const std::lock_guard lock(tokens_mutex_);
  for (TokenRecord& record : records) {
    const auto known = tokens_.find(record.id);
    // Another secret under the same id is another token.
    const auto old = known == tokens_.end() ? nullptr : known->second->record();
    if (old && old->hash == record.hash) {
      if (*old != record) known->second->become(record);
      next.emplace(record.id, known->second);
    } else {
      next.emplace(record.id, std::make_shared<Token>(record));
    }
  }
  for (const auto& [id, token] : tokens_) {
    const auto kept = next.find(id);
    if (kept == next.end() || kept->second != token) token->revoke();
  }
  tokens_ = std::move(next);
}

void Gate::refresh() {
  if (open()) return;
  const std::lock_guard lock(refresh_mutex_);
  const FileStamp stamp = FileStamp::of(options_.tokens_file);
  if (stamp == stamp_) return;
  stamp_ = stamp;
  try {
    load();
    const std::lock_guard counted(tokens_mutex_);
    spdlog::info("tokens read again: {} are valid", tokens_.size());
  } catch (const TokenFileError& error) {
    spdlog::error("the tokens stay as they were: {}", error.what());
  }
}

// ---- callers --------------------------------------------------------------------------------------------------------

Admission Gate::refuse(Refusal cause, Caller caller, Status status, std::int64_t retry_after_s) {
  refused(cause);
  return {std::move(caller), std::move(status), retry_after_s};
}

std::shared_ptr<Token> Gate::find(const std::string& id) const {
  const std::lock_guard lock(tokens_mutex_);
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : found->second;
}

Admission Gate::admit(std::string_view authorization, const std::string& peer) {
  if (open()) return {Caller::anybody(peer), {}, 0};
  if (authorization.empty()) return refuse(Refusal::kNoToken, Caller::anybody(peer), {Status::kUnauthenticated, kNoToken});
  const auto shown = parse_bearer(authorization);
  std::shared_ptr<Token> token = shown ? find(shown->id) : nullptr;
  if (shown && !token) {  // it may have been made a moment ago
    refresh();
    token = find(shown->id);
  }
  const std::int64_t now = steady_ms();
  const std::string key = network_of(peer) + ' ' + (token ? shown->id : "");
  if (const std::int64_t wait = lockout_.wait_ms(key, now); wait > 0) {
    const std::int64_t seconds = wait / 1000 + 1;
    return refuse(Refusal::kLockedOut, Caller::anybody(peer),
                  {Status::kResourceExhausted, fmt::format("too many wrong tokens from {}: try again in {} s", peer, seconds)},
                  seconds);
  }
  const auto record = token ? token->record() : nullptr;
  if (record && same_hash(record->hash, hash_of(*shown))) {
    lockout_.succeeded(key);
    return {Caller(token, record->id, peer), {}, 0};
  }
  lockout_.failed(key, now);
  const Caller caller(nullptr, token ? shown->id : "", peer);
  Admission out = refuse(Refusal::kWrongToken, caller, {Status::kUnauthenticated, kWrongToken});
  audit(caller, "authenticate", {}, {}, out.status);
  return out;
}

void Gate::audit(const Caller& caller, std::string_view call, const std::string& target, const std::string& who,
                 const Status& status) const {
  if (open() && !audit_log_.has_file()) return;
  audit_log_.write({caller.id(), caller.name(), caller.peer(), call, target, who, code_name(status.code),
                    status.ok() ? "" : status.message});
}

Permit Gate::take_query(const Caller& caller) {
  Permit permit = Token::take_query(caller.token(), options_.max_queries_per_token);
  if (permit == nullptr) refused(Refusal::kQueries);
  return permit;
}

Permit Gate::take_stream() {
  if (options_.max_streams != 0 && streams_->fetch_add(1) >= options_.max_streams) {
    streams_->fetch_sub(1);
    return nullptr;
  }
  if (options_.max_streams == 0) streams_->fetch_add(1);
  return {streams_.get(), [streams = streams_](void*) { streams->fetch_sub(1); }};
}

// ---- holds ----------------------------------------------------------------------------------------------------------

Gate::Hold::Hold(Gate& gate, std::function<bool()> check, std::function<void()> end)
    : gate_(gate), check_(std::move(check)), end_(std::move(end)) {
  const std::lock_guard lock(gate_.holds_mutex_);
  at_ = gate_.holds_.insert(gate_.holds_.end(), this);
}

Gate::Hold::~Hold() {
  const std::lock_guard lock(gate_.holds_mutex_);
  gate_.holds_.erase(at_);
}

std::unique_ptr<Gate::Hold> Gate::hold(std::function<bool()> check, std::function<void()> end) {
  return std::unique_ptr<Hold>(new Hold(*this, std::move(check), std::move(end)));
}

void Gate::check_holds() {
  const std::lock_guard lock(holds_mutex_);
  for (Hold* const hold : holds_) {
    if (hold->ended_ || hold->check_()) continue;
    hold->ended_ = true;
    hold->end_();
  }
}

}  // namespace scalewatch::auth
