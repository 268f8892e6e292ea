// Runs a program of the operator's for every page, with the webhook's JSON (webhook_fields.h) on its standard input.
//
// `command` is a list: the program's path and its arguments, as they are; there is no shell, and nothing of an alert becomes an
// argument. Exit status 0 is delivered, 65 (EX_DATAERR) rejected, anything else is tried again. A program that runs longer
// than the sink's time-out is killed with its children.
#pragma once

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

class CommandSink : public Sink {
 public:
  using Sink::Sink;
  [[nodiscard]] HttpRequest request(const Notice& notice, std::int64_t now_ms) const override;
};

}  // namespace scalewatch::alerting
