// Bearer tokens: swt_ID_SECRET. The id is public and names the token in files, logs and audit lines; the secret is 256 random
// bits, of which only a hash is kept. A secret of that size can't be guessed, so one pass of SHA-256 is all it needs. Pure but
// for the randomness of make_token; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace scalewatch::auth {

inline constexpr std::size_t kTokenIdBytes = 12;  // of [a-z2-7]
inline constexpr std::size_t kSecretBytes = 52;   // of [a-z2-7]: 32 bytes in base32

struct TokenText {
  std::string id;
  std::string secret;
};

// A new one from the system's random numbers. Throws std::runtime_error when there are none.
TokenText make_token();
std::string to_text(const TokenText& token);

// Nothing for what has not the form of a token.
std::optional<TokenText> parse_token(std::string_view text);
// Of an Authorization header or metadata value: "Bearer swt_...", the word in any case.
std::optional<TokenText> parse_bearer(std::string_view header);

// What is kept of a secret: "sha256:" and 64 hexadecimal digits of SHA-256("scalewatch token" ID ":" SECRET), so that one
// secret under another id is another hash.
std::string hash_of(const TokenText& token);
bool is_token_id(std::string_view id);
bool is_hash(std::string_view text);
// In a time that does not tell where they differ. Both must be hashes.
bool same_hash(std::string_view a, std::string_view b);

}  // namespace scalewatch::auth
