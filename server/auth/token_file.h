// The file that tokens live in: JSON, mode 0600, made and edited by `scalewatch admin token`, read by any number of servers.
//
//   {"version": 1, "tokens": [{"id", "name", "hash", "scopes": [...], "created_ms", "expires_ms", "limits": {...}}]}
// Nothing in it lets anybody in: it has hashes only. An edit takes the lock FILE.lock, writes a new file beside it, syncs it
// and puts it in place in one step, so that readers see the one or the other.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/auth/scopes.h"

namespace scalewatch::auth {

// What a token may take of the server; 0 = no limit of its own.
struct TokenLimits {
  std::uint64_t streams = 0;             // open at once
  std::uint64_t runs = 0;                // that it sends reports of at once
  std::uint64_t tensors = 0;             // that one stream may announce
  std::uint64_t message_bytes = 0;       // of one message
  std::uint64_t records_per_second = 0;  // all its streams together: more waits, and is not refused
  std::uint64_t bytes_per_day = 0;       // likewise; what it may fill the disk with
  std::uint64_t queries = 0;             // at once, live readers counted too

  bool operator==(const TokenLimits&) const = default;
};

struct TokenRecord {
  std::string id;
  std::string name;  // for people: 1 to 64 bytes of printable ASCII
  std::string hash;  // see token.h
  Scopes scopes;
  TokenLimits limits;
  std::int64_t created_ms = 0;  // Unix milliseconds
  std::int64_t expires_ms = 0;  // likewise; 0 = never

  bool operator==(const TokenRecord&) const = default;
};

// One line that names the file and the cause. No secrets.
class TokenFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t kMaxTokens = 10'000;

bool is_token_name(const std::string& name);

// Throws TokenFileError: the file is missing, can be read by others than its owner and group, or is not what it should be.
std::vector<TokenRecord> read_tokens(const std::string& path);
// Under the file's lock; a file that is not there yet counts as empty. `edit` may throw, which changes nothing. Throws
// TokenFileError.
void edit_tokens(const std::string& path, const std::function<void(std::vector<TokenRecord>&)>& edit);

// Every limit by its name in the file and in --limit; null for a name that is none.
std::uint64_t* limit_named(TokenLimits& limits, const std::string& name);
const std::vector<std::string>& limit_names();

}  // namespace scalewatch::auth
