// A body of the operator's own: text with {{fields}} of the webhook's JSON.
//
//   {"text": "{{title}}", "tensor": "{{where.tensor}}", "attempt": {{since.attempt}}, "all": {{evidence}}}
//
// Texts are put in as a JSON string holds them, without its quotation marks, so that a quoted field is valid JSON; numbers,
// lists, objects and null as JSON. Pure and thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace scalewatch::alerting {

// What is wrong with a template whose fields are those of `fields`; empty when nothing is.
std::string template_fault(std::string_view text, const nlohmann::json& fields);

// The text with its fields filled in; those that do not exist, and parts of null, are null.
std::string fill_template(std::string_view text, const nlohmann::json& fields);

}  // namespace scalewatch::alerting
