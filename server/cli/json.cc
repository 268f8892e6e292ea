#include "server/cli/json.h"

#include <google/protobuf/util/json_util.h>

#include <stdexcept>
#include <string>

namespace scalewatch::cli {

namespace {

std::string to_json(const google::protobuf::Message& message, bool whitespace) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = whitespace;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) throw std::runtime_error("the answer can't be written as JSON: " + status.ToString());
  return text;
}

}  // namespace

void print_json(const google::protobuf::Message& message, std::ostream& out) {
  out << to_json(message, true);
}
void print_json_line(const google::protobuf::Message& message, std::ostream& out) {
  out << to_json(message, false) << '\n' << std::flush;
}

}  // namespace scalewatch::cli
