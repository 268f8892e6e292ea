// Machine-readable output: the protobuf JSON of a response with the field names of proto/scalewatch/v1.
//
// Fields without presence are always there, optional ones only when they have a value; 64-bit integers are strings and
// NaN and infinities are "NaN", "Infinity" and "-Infinity", as protobuf's JSON mapping says.
#pragma once

#include <google/protobuf/message.h>

#include <ostream>

namespace scalewatch::cli {

// The message over several lines.
void print_json(const google::protobuf::Message& message, std::ostream& out);
// The message on one line, for streams.
void print_json_line(const google::protobuf::Message& message, std::ostream& out);

}  // namespace scalewatch::cli
