#include "server/http/message.h"

#include <nlohmann/json.hpp>

namespace scalewatch::http {

Response error_response(unsigned status, const std::string& message) {
  const nlohmann::json body = {{"code", status}, {"message", message}};
  // Bytes of a request may be quoted in the message; those that are no UTF-8 are replaced.
  return {status, kJson, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", {}};
}

}  // namespace scalewatch::http
