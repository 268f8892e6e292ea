#include "server/http/url.h"

#include <arpa/inet.h>

namespace scalewatch::http {
namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex(text[i + 1]);
      const int low = hex(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

// Calls `visit` with each part; stops and returns false when it does.
template <class Visit>
bool split(std::string_view text, char separator, const Visit& visit) {
  while (true) {
    const auto at = text.find(separator);
    if (!visit(text.substr(0, at))) return false;
    if (at == std::string_view::npos) return true;
    text.remove_prefix(at + 1);
  }
}

}  // namespace

std::optional<Url> parse_target(std::string_view target) {
  if (target.starts_with("http://")) {
    const auto path = target.find('/', 7);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (!target.starts_with('/')) return std::nullopt;
  target = target.substr(0, target.find('#'));
  const auto question = target.find('?');
  std::string_view path = target.substr(1, question == std::string_view::npos ? question : question - 1);
  const std::string_view query = question == std::string_view::npos ? "" : target.substr(question + 1);

  Url url;
  if (path.ends_with('/')) path.remove_suffix(1);
  const bool path_ok = path.empty() || split(path, '/', [&](std::string_view part) {
                         auto segment = decode(part, false);
                         if (!segment) return false;
                         url.segments.push_back(*std::move(segment));
                         return true;
                       });
  const bool query_ok = split(query, '&', [&](std::string_view part) {
    if (part.empty()) return true;
    const auto equals = part.find('=');
    auto name = decode(part.substr(0, equals), true);
    auto value = decode(equals == std::string_view::npos ? "" : part.substr(equals + 1), true);
    if (!name || !value) return false;
    url.query.emplace_back(*std::move(name), *std::move(value));
    return true;
  });
  if (!path_ok || !query_ok) return std::nullopt;
  return url;
}

bool is_own_name(std::string_view host, std::string_view public_host) {
  const auto lower = [](std::string_view text) {
    std::string out(text);
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return out;
  };
  if (host.starts_with('[')) return host.find(']') != std::string_view::npos;  // IPv6
  std::string name = lower(host.substr(0, host.rfind(':')));
  if (name.ends_with('.')) name.pop_back();
  in_addr address{};
  return name.find('.') == std::string::npos || name.ends_with(".localhost") ||
         inet_pton(AF_INET, name.c_str(), &address) == 1 || name == lower(public_host);
}

}  // namespace scalewatch::http
