#include "server/alerting/webhook_sink.h"

#include <fmt/format.h>

#include "server/alerting/alert_text.h"
#include "server/alerting/body_template.h"
#include "server/alerting/signature.h"
#include "server/alerting/webhook_fields.h"

namespace scalewatch::alerting {

HttpRequest WebhookSink::request(const Notice& notice, std::int64_t now_ms) const {
  const nlohmann::json fields = webhook_fields(notice, config().public_url);
  HttpRequest out = post(url(), config().body.empty() ? dump(fields) : fill_template(config().body, fields));
  // Everything printable but '%' stays as it is, so that the usual key reads the same in header and body.
  out.headers.push_back("Idempotency-Key: " + percent_encoded(notice.key, "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"));
  if (config().key.set()) {
    const std::int64_t seconds = now_ms / 1000;
    // A key that has gone is no key: the receiver refuses the page, and that is told.
    const std::string signature = hmac_sha256(config().key.read().value_or(""), fmt::format("{}.{}", seconds, out.body));
    out.headers.push_back(fmt::format("Scalewatch-Signature: t={},v1={}", seconds, signature));
  }
  return out;
}

}  // namespace scalewatch::alerting
