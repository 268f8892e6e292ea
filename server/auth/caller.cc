#include "server/auth/caller.h"

#include <chrono>
#include <utility>

namespace scalewatch::auth {

namespace {

constexpr double kDaySeconds = 24.0 * 3600;
constexpr double kBurstSeconds = 10;  // of records

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool within(std::uint64_t limit, std::uint64_t taken) {
  return limit == 0 || taken < limit;
}

}  // namespace

Token::Token(TokenRecord record) : record_(std::make_shared<const TokenRecord>(std::move(record))) {
  set_rates(*record_);
}

void Token::set_rates(const TokenRecord& record) {
  const auto rate = static_cast<double>(record.limits.records_per_second);
  records.limit(rate, rate * kBurstSeconds);
  const auto day = static_cast<double>(record.limits.bytes_per_day);
  bytes.limit(day / kDaySeconds, day);
}

std::shared_ptr<const TokenRecord> Token::record() const {
  const std::lock_guard lock(mutex_);
  if (record_ && record_->expires_ms != 0 && record_->expires_ms <= wall_ms()) return nullptr;
  return record_;
}

void Token::become(TokenRecord record) {
  const std::lock_guard lock(mutex_);
  set_rates(record);
  record_ = std::make_shared<const TokenRecord>(std::move(record));
}

void Token::revoke() {
  const std::lock_guard lock(mutex_);
  record_.reset();
}

Permit Token::take_query(const std::shared_ptr<Token>& self, std::uint64_t otherwise) {
  const std::lock_guard lock(self->mutex_);
  if (self->record_ == nullptr) return nullptr;
  const std::uint64_t own = self->record_->limits.queries;
  if (!within(own != 0 ? own : otherwise, self->queries_)) return nullptr;
  ++self->queries_;
  return {self.get(), [self](void*) {
            const std::lock_guard unlock(self->mutex_);
            --self->queries_;
          }};
}

Permit Token::take_stream(const std::shared_ptr<Token>& self) {
  const std::lock_guard lock(self->mutex_);
  if (self->record_ == nullptr || !within(self->record_->limits.streams, self->streams_)) return nullptr;
  ++self->streams_;
  return {self.get(), [self](void*) {
            const std::lock_guard unlock(self->mutex_);
            --self->streams_;
          }};
}

Permit Token::take_run(const std::shared_ptr<Token>& self, const std::string& run) {
  const std::lock_guard lock(self->mutex_);
  if (self->record_ == nullptr) return nullptr;
  if (!self->runs_.contains(run) && !within(self->record_->limits.runs, self->runs_.size())) return nullptr;
  ++self->runs_[run];
  return {self.get(), [self, run](void*) {
            const std::lock_guard unlock(self->mutex_);
            if (--self->runs_[run] == 0) self->runs_.erase(run);
          }};
}

template <class Ask>
bool Caller::allowed(const Ask& ask) const {
  if (!token_) return true;
  const auto record = token_->record();
  return record && ask(record->scopes);
}

bool Caller::may_ingest(const std::string& run) const {
  return allowed([&](const Scopes& scopes) { return scopes.may_ingest(run); });
}
bool Caller::may_read(const std::string& run) const {
  return allowed([&](const Scopes& scopes) { return scopes.may_read(run); });
}
bool Caller::may_read_all() const {
  return allowed([](const Scopes& scopes) { return scopes.may_read_all(); });
}
bool Caller::may_read_some() const {
  return allowed([](const Scopes& scopes) { return scopes.admin || !scopes.read.empty(); });
}
bool Caller::may_operate(const std::string& run) const {
  return allowed([&](const Scopes& scopes) { return scopes.may_operate(run); });
}
bool Caller::may_operate_all() const {
  return allowed([](const Scopes& scopes) { return scopes.may_operate_all(); });
}
bool Caller::may_admin() const {
  return allowed([](const Scopes& scopes) { return scopes.admin; });
}
std::string Caller::name() const {
  const auto record = token_ ? token_->record() : nullptr;
  return record ? record->name : std::string();
}

}  // namespace scalewatch::auth
