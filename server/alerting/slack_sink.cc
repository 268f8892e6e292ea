#include "server/alerting/slack_sink.h"

#include <nlohmann/json.hpp>

#include "server/alerting/alert_text.h"
#include "server/alerting/message.h"

namespace scalewatch::alerting {

namespace {

// Slack's control characters: a name with them must not become a mention or a link.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view color_of(const Notice& notice) {
  if (notice.transition == kResolved) return "#2eb67d";
  const v1::Severity severity = notice.alert.finding().severity();
  return severity == v1::SEVERITY_CRITICAL ? "#e01e5a" : severity == v1::SEVERITY_WARNING ? "#ecb22e" : "#36c5f0";
}

}  // namespace

HttpRequest SlackSink::request(const Notice& notice, std::int64_t) const {
  const Message message = message_of(notice, config().public_url);
  std::string text = escaped(message.text);
  if (!message.runbook.empty()) text += "\nRunbook: " + escaped(message.runbook);
  nlohmann::json attachment = {{"fallback", escaped(message.title)},
                               {"color", color_of(notice)},
                               {"title", escaped(message.title)},
                               {"text", text},
                               {"ts", notice.alert.fired_ms() / 1000}};
  if (!message.link.empty()) attachment["title_link"] = message.link;
  HttpRequest out = post(url(), dump({{"text", escaped(message.title)}, {"attachments", nlohmann::json::array({attachment})}}));
  // Whoever has the address can post: it is a secret wherever it is configured.
  out.has_secrets = out.secret_url = true;
  return out;
}

}  // namespace scalewatch::alerting
