#include "server/alerting/command_sink.h"

#include "server/alerting/alert_text.h"
#include "server/alerting/webhook_fields.h"

namespace scalewatch::alerting {

HttpRequest CommandSink::request(const Notice& notice, std::int64_t) const {
  HttpRequest out{.url = {}, .headers = {}, .body = {}, .timeout_ms = config().timeout_ms};
  out.command = config().command;
  out.body = dump(webhook_fields(notice, config().public_url)) + "\n";
  return out;
}

}  // namespace scalewatch::alerting
