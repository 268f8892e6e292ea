// E-mail over SMTP: one message a page, plain text.
//
// `url` is smtp://HOST:PORT, upgraded by STARTTLS (which `tls: false` turns off, for a relay on this machine), or
// smtps://HOST:PORT. `user` and the secret `key` log in. Message-ID follows from the notice's key, the same at every try.
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class EmailSink : public Sink {
 public:
  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
  // SMTP's answers: 2xx delivered, 4xx and none retry, 5xx rejected.
  [[nodiscard]] Verdict classify(const HttpResponse& response) const override;
};

}  // namespace scalewatch::alerting
