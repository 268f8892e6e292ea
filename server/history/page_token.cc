#include "server/history/page_token.h"

#include <charconv>
#include <string_view>

#include "server/history/api_error.h"

namespace scalewatch::history {

namespace {

constexpr char kSeparator = '\n';
constexpr std::string_view kHex = "0123456789abcdef";

[[noreturn]] void bad_token() {
  invalid("page_token", "not one that this list gave; leave it empty to begin anew");
}

}  // namespace

void invalid(const std::string& field, const std::string& what) {
  throw ApiError{{engine::Status::kInvalidArgument, field + ": " + what}};
}

std::string make_token(char kind, const std::vector<std::string>& fields) {
  std::string plain(1, kind);
  for (const auto& field : fields) plain.append(1, kSeparator).append(field);
  std::string token;
  for (const char c : plain) {
    const auto byte = static_cast<unsigned char>(c);
    token += kHex[byte >> 4];
    token += kHex[byte & 15];
  }
  return token;
}

std::vector<std::string> read_token(const std::string& token, char kind, std::size_t fields) {
  if (token.empty()) return {};
  std::string plain;
  for (std::size_t i = 0; i < token.size(); i += 2) {
    const auto high = kHex.find(token[i]);
    const auto low = i + 1 < token.size() ? kHex.find(token[i + 1]) : std::string_view::npos;
    if (high == std::string_view::npos || low == std::string_view::npos) bad_token();
    plain += static_cast<char>(high * 16 + low);
  }
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= plain.size();) {
    const std::size_t end = std::min(plain.find(kSeparator, begin), plain.size());
    parts.push_back(plain.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() != fields + 1 || parts.front() != std::string(1, kind)) bad_token();
  parts.erase(parts.begin());
  return parts;
}

std::int64_t token_number(const std::string& field) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size()) bad_token();
  return value;
}

std::size_t checked_page_size(std::int32_t page_size) {
  if (page_size < 0 || page_size > 1000) invalid("page_size", std::to_string(page_size) + " is not between 0 and 1000");
  return page_size == 0 ? 100 : static_cast<std::size_t>(page_size);
}

std::size_t checked_limit(const char* field, std::uint32_t value, std::size_t default_value, std::size_t most) {
  if (value > most) invalid(field, std::to_string(value) + " is more than " + std::to_string(most));
  return value == 0 ? default_value : value;
}

}  // namespace scalewatch::history
