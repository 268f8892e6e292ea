// POSTs every transition as JSON (webhook_fields.h), or as the operator's own template of it (SinkConfig::body).
//
// Headers: Idempotency-Key = `key` with bytes that a header can't hold (and '%') as %XX; User-Agent scalewatch/VERSION. With a
// key (SinkConfig::key) also Scalewatch-Signature: t=SECONDS,v1=HEX, where HEX is the HMAC-SHA256 of "SECONDS.BODY" under it:
// a receiver computes it anew over the bytes it got, compares in constant time, and refuses old SECONDS.
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class WebhookSink : public Sink {
 public:
  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
};

}  // namespace scalewatch::alerting
