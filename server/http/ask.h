// Asks the history again at once when it was too busy: what the first try read is in the cache, so the second is faster. A
// panel shows an error until the dashboard's next refresh, however short the fault was. No third time: the server may be
// overloaded.
#pragma once

#include "server/engine/ports/read_api.h"

namespace scalewatch::http {

template <class RequestMessage, class ResponseMessage>
engine::Status ask(engine::HistoryApi& history,
                   engine::Status (engine::HistoryApi::*function)(const RequestMessage&, ResponseMessage&),
                   const RequestMessage& request, ResponseMessage& response) {
  engine::Status status = (history.*function)(request, response);
  if (status.code != engine::Status::kUnavailable) return status;
  response.Clear();
  return (history.*function)(request, response);
}

}  // namespace scalewatch::http
