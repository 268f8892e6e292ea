// Slack's incoming webhooks, and what takes the same: Mattermost, and Discord's webhooks with /slack at their end.
//
// One message with one attachment, the form that all three show: title with a link, colour by severity, text. The webhook's
// address is a secret: give it as url_file or url_env.
// Source: https://api.slack.com/reference/messaging/attachments (text, color, title, title_link, fallback, ts).
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class SlackSink : public Sink {
 public:
  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
};

}  // namespace scalewatch::alerting
