#include "server/alerting/email_sink.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "server/alerting/message.h"
#include "server/alerting/signature.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kEncodedLine = 76;

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t k) { return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U; };
    const unsigned word = (byte(0) << 16U) | (byte(1) << 8U) | byte(2);
    out += kDigits[word >> 18U];
    out += kDigits[(word >> 12U) & 63U];
    out += i + 1 < bytes.size() ? kDigits[(word >> 6U) & 63U] : '=';
    out += i + 2 < bytes.size() ? kDigits[word & 63U] : '=';
  }
  return out;
}

// RFC 2047: words of at most 75 characters, each with whole characters of UTF-8.
std::string header_text(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  std::string out;
  while (!text.empty()) {
    std::size_t end = std::min<std::size_t>(text.size(), 42);
    while (end < text.size() && end > 1 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    if (!out.empty()) out += "\r\n ";
    out += "=?UTF-8?B?" + base64(text.substr(0, end)) + "?=";
    text.erase(0, end);
  }
  return out;
}

std::string body_text(const std::string& text) {
  const std::string encoded = base64(text);
  std::string out;
  for (std::size_t i = 0; i < encoded.size(); i += kEncodedLine) out += encoded.substr(i, kEncodedLine) + "\r\n";
  return out;
}

}  // namespace

HttpRequest EmailSink::request(const Notice& notice, std::int64_t now_ms) const {
  const Message message = message_of(notice, config().public_url);
  const std::string& from = config().from;
  const std::string domain = from.substr(from.find('@') + 1);
  HttpRequest out{.url = url(), .headers = {}, .body = {}, .timeout_ms = config().timeout_ms};
  mark_secrets(out);
  out.mail = HttpRequest::Mail{.from = from,
                               .to = config().to,
                               .user = config().user,
                               .password = config().key.read().value_or(""),
                               .tls = config().tls};
  out.body = fmt::format(
      "From: {}\r\nTo: {}\r\nSubject: {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} +0000\r\nMessage-ID: <{}@{}>\r\n"
      "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "Content-Transfer-Encoding: base64\r\n\r\n{}",
      from, fmt::join(config().to, ", "), header_text(message.title), fmt::gmtime(static_cast<std::time_t>(now_ms / 1000)),
      sha256(notice.key).substr(0, 32), domain, body_text(message.whole() + "\n"));
  return out;
}

Verdict EmailSink::classify(const HttpResponse& response) const {
  if (response.status >= 200 && response.status < 300 && response.error.empty()) return Verdict::kDelivered;
  return response.status >= 500 ? Verdict::kRejected : Verdict::kRetry;
}

}  // namespace scalewatch::alerting
