// Logged inputs as JSON, readable in the store by people. Reports are not here: their payload is the report itself.
//
// Pure and thread-safe. The form lasts: a field may be added, with a default for older logs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/domain/observation.h"
#include "server/engine/ports/history_store.h"

namespace scalewatch::engine {

struct LoggedInput {
  domain::Input input;                     // never an AttemptDigest
  std::optional<Incarnation> incarnation;  // of the rank that it is about: RankJoined, RankLeft, ReportsLost, RulesChanged
  std::optional<std::uint32_t> segment{};  // of an AttemptClosed; absent in the logs of older servers
};

std::string encode_input(const LoggedInput& input);
// Throws std::runtime_error on anything that encode_input did not make.
LoggedInput decode_input(std::string_view payload);

}  // namespace scalewatch::engine
