#include "server/auth/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

namespace scalewatch::auth {

namespace {

constexpr std::string_view kPrefix = "swt_";
constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::string_view kHashPrefix = "sha256:";
constexpr std::size_t kHashDigits = 64;

bool is_base32(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return kAlphabet.find(c) != std::string_view::npos; });
}

// Each character from five random bits.
std::string random_text(std::size_t size) {
  std::string out(size, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(size)) != 1) {
    throw std::runtime_error("the system has no random numbers for a token");
  }
  for (char& c : out) c = kAlphabet[static_cast<unsigned char>(c) & 31U];
  return out;
}

}  // namespace

TokenText make_token() {
  return {random_text(kTokenIdBytes), random_text(kSecretBytes)};
}

std::string to_text(const TokenText& token) {
  return std::string(kPrefix) + token.id + "_" + token.secret;
}

bool is_token_id(std::string_view id) {
  return id.size() == kTokenIdBytes && is_base32(id);
}

std::optional<TokenText> parse_token(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  if (text.size() != kTokenIdBytes + 1 + kSecretBytes || text[kTokenIdBytes] != '_') return std::nullopt;
  const std::string_view id = text.substr(0, kTokenIdBytes);
  const std::string_view secret = text.substr(kTokenIdBytes + 1);
  if (!is_base32(id) || !is_base32(secret)) return std::nullopt;
  return TokenText{std::string(id), std::string(secret)};
}

std::optional<TokenText> parse_bearer(std::string_view header) {
  constexpr std::string_view kWord = "bearer ";
  if (header.size() < kWord.size()) return std::nullopt;
  for (std::size_t i = 0; i < kWord.size(); ++i) {
    const char c = header[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kWord[i]) return std::nullopt;
  }
  header.remove_prefix(kWord.size());
  while (header.starts_with(' ')) header.remove_prefix(1);
  return parse_token(header);
}

std::string hash_of(const TokenText& token) {
  const std::string text = "scalewatch token " + token.id + ":" + token.secret;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(kHashPrefix);
  for (const unsigned char byte : digest) {
    out.push_back(kDigits[byte >> 4U]);
    out.push_back(kDigits[byte & 15U]);
  }
  return out;
}

bool is_hash(std::string_view text) {
  if (!text.starts_with(kHashPrefix) || text.size() != kHashPrefix.size() + kHashDigits) return false;
  return text.substr(kHashPrefix.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool same_hash(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace scalewatch::auth
