// Tokens as a server knows them while it runs, and whoever shows one. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/auth/bucket.h"
#include "server/auth/token_file.h"

namespace scalewatch::auth {

// What runs while it lives counts against a limit.
using Permit = std::shared_ptr<void>;

// One token of the file. It keeps its counts when the file says something new about it.
class Token {
 public:
  explicit Token(TokenRecord record);

  // Null once it was revoked or has expired.
  [[nodiscard]] std::shared_ptr<const TokenRecord> record() const;
  void become(TokenRecord record);
  void revoke();

  // Null when its limit is reached. `self`: this token, which the permit keeps. `otherwise`: the limit of one that has none.
  static Permit take_query(const std::shared_ptr<Token>& self, std::uint64_t otherwise = 0);
  static Permit take_stream(const std::shared_ptr<Token>& self);
  static Permit take_run(const std::shared_ptr<Token>& self, const std::string& run);

  Bucket records;
  Bucket bytes;

 private:
  void set_rates(const TokenRecord& record);

  mutable std::mutex mutex_;
  std::shared_ptr<const TokenRecord> record_;
  std::map<std::string, std::uint64_t> runs_;  // streams of each
  std::uint64_t streams_ = 0;
  std::uint64_t queries_ = 0;
};

// Somebody who was let in. Cheap to copy. A default one is anybody, where no tokens are asked for, and may do everything.
class Caller {
 public:
  Caller() = default;
  Caller(std::shared_ptr<Token> token, std::string id, std::string peer)
      : token_(std::move(token)), id_(std::move(id)), peer_(std::move(peer)) {}
  static Caller anybody(std::string peer) { return {nullptr, {}, std::move(peer)}; }

  // False as soon as its token was revoked or has expired.
  [[nodiscard]] bool known() const { return token_ == nullptr || token_->record() != nullptr; }
  [[nodiscard]] bool may_ingest(const std::string& run) const;
  [[nodiscard]] bool may_read(const std::string& run) const;
  [[nodiscard]] bool may_read_all() const;
  [[nodiscard]] bool may_read_some() const;  // of whichever runs
  [[nodiscard]] bool may_operate(const std::string& run) const;
  [[nodiscard]] bool may_operate_all() const;
  [[nodiscard]] bool may_admin() const;

  [[nodiscard]] const std::shared_ptr<Token>& token() const { return token_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] std::string name() const;

 private:
  template <class Ask>
  [[nodiscard]] bool allowed(const Ask& ask) const;

  std::shared_ptr<Token> token_;
  std::string id_;
  std::string peer_;
};

}  // namespace scalewatch::auth
