#include "server/alerting/body_template.h"

#include <fmt/format.h>

#include <optional>

#include "server/alerting/alert_text.h"

namespace scalewatch::alerting {

namespace {

// Calls visit(text before, name) for each field; returns the text after the last, or nothing when a field does not end.
template <class Visit>
std::optional<std::string_view> each_field(std::string_view text, const Visit& visit) {
  for (std::size_t start = text.find("{{"); start != std::string_view::npos; start = text.find("{{")) {
    const auto end = text.find("}}", start);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view name = text.substr(start + 2, end - start - 2);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    visit(text.substr(0, start), name);
    text.remove_prefix(end + 2);
  }
  return text;
}

// Null when there is no such field.
const nlohmann::json* field_at(const nlohmann::json& fields, std::string_view path) {
  const nlohmann::json* at = &fields;
  while (!path.empty()) {
    const auto dot = path.find('.');
    const std::string name(path.substr(0, dot));
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return at;
}

}  // namespace

std::string template_fault(std::string_view text, const nlohmann::json& fields) {
  std::string fault;
  const auto rest = each_field(text, [&](std::string_view, std::string_view name) {
    // Labels are the run's own: any may be missing.
    const bool label = name.starts_with("labels.");
    if (fault.empty() && (name.empty() || (!label && field_at(fields, name) == nullptr))) {
      fault = fmt::format("has no field {{{{{}}}}}", name);
    }
  });
  if (!rest) return "has {{ without }}";
  return fault;
}

std::string fill_template(std::string_view text, const nlohmann::json& fields) {
  std::string out;
  const auto rest = each_field(text, [&](std::string_view before, std::string_view name) {
    out += before;
    const nlohmann::json* value = field_at(fields, name);
    std::string written = value == nullptr ? "null" : dump(*value);
    if (value != nullptr && value->is_string()) written = written.substr(1, written.size() - 2);
    out += written;
  });
  if (rest) out += *rest;
  return out;
}

}  // namespace scalewatch::alerting
