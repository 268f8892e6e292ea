// Text to fields of a Protobuf message, by reflection: how path segments and query parameters become a request. Pure.
#pragma once

#include <google/protobuf/message.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace scalewatch::http {

using Parameters = std::vector<std::pair<std::string, std::string>>;

// Sets each parameter's field: one of the message, or of a message in it ("first" is range.first). Enums go by short name in
// any case ("critical"), repeated fields may be given again or with commas. Fields in `fixed` may not be given.
// Returns what is wrong, naming the parameter; empty when all is well.
std::string set_fields(google::protobuf::Message& message, const Parameters& parameters,
                       const std::set<std::string>& fixed = {});

}  // namespace scalewatch::http
