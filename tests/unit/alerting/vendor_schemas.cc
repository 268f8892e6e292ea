#include "tests/unit/alerting/vendor_schemas.h"

#include <algorithm>
#include <map>
#include <regex>
#include <span>

namespace scalewatch::alerting {

namespace {

using nlohmann::json;

constexpr const char* kTime = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))";
constexpr const char* kUri = R"(https?://[^\s<>"]+)";
constexpr const char* kAnyText = "";
constexpr const char* kSome = "some";  // not empty

enum class Is : std::uint8_t { kText, kWhole, kNumber, kObject, kArray, kAny };

struct Field {
  const char* name;
  Is is;
  bool required = false;
  const char* pattern = kAnyText;  // of a text, the whole of it; empty: any
  std::size_t most = 0;            // characters or entries; 0: any
  bool nullable = false;
};

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

bool fits(Is is, const json& value) {
  switch (is) {
    case Is::kText:
      return value.is_string();
    case Is::kWhole:
      return value.is_number_integer();
    case Is::kNumber:
      return value.is_number() || value == "NaN" || value == "Infinity" || value == "-Infinity";
    case Is::kObject:
      return value.is_object();
    case Is::kArray:
      return value.is_array();
    case Is::kAny:
      break;
  }
  return true;
}

// An object with these fields and no others.
std::string object_fault(const json& object, std::span<const Field> fields, const std::string& where = {}) {
  if (!object.is_object()) return where + "not an object";
  for (const auto& [name, value] : object.items()) {
    if (std::none_of(fields.begin(), fields.end(), [&](const Field& field) { return name == field.name; })) {
      return where + name + " is unknown";
    }
  }
  for (const Field& field : fields) {
    const std::string name = where + field.name;
    if (!object.contains(field.name)) {
      if (field.required) return name + " is missing";
      continue;
    }
    const json& value = object[field.name];
    if (value.is_null() && field.nullable) continue;
    if (!fits(field.is, value)) return name + " is of another type";
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      if (field.most > 0 && characters(text) > field.most) return name + " is too long";
      if (field.pattern == kSome ? text.empty()
                                 : *field.pattern != '\0' && !std::regex_match(text, std::regex(field.pattern))) {
        return name + " has another form";
      }
    }
    if (value.is_array() && field.most > 0 && value.size() > field.most) return name + " has too many entries";
  }
  return {};
}

std::string texts_fault(const json& map, const std::string& where) {
  for (const auto& [name, value] : map.items()) {
    if (!std::regex_match(name, std::regex("[a-zA-Z_][a-zA-Z0-9_]*"))) return where + " has a bad name";
    if (!value.is_string() || value == "") return where + "." + name + " is no text";
  }
  return {};
}

std::string entries_fault(const json& array, std::span<const Field> fields, const std::string& where) {
  for (const json& entry : array) {
    if (std::string why = object_fault(entry, fields, where + "."); !why.empty()) return why;
  }
  return {};
}

}  // namespace

std::string pagerduty_fault(const json& event) {
  static constexpr Field kEvent[] = {{"routing_key", Is::kText, true, ".{32}"},
                                     {"event_action", Is::kText, true, "trigger|acknowledge|resolve"},
                                     {"dedup_key", Is::kText, false, ".+", 255},
                                     {"client", Is::kText},
                                     {"client_url", Is::kText, false, kUri},
                                     {"payload", Is::kObject},
                                     {"links", Is::kArray},
                                     {"images", Is::kArray}};
  static constexpr Field kPayload[] = {{"summary", Is::kText, true, kSome, 1024},
                                       {"source", Is::kText, true, kSome},
                                       {"severity", Is::kText, true, "critical|warning|error|info"},
                                       {"timestamp", Is::kText, false, kTime},
                                       {"component", Is::kText},
                                       {"group", Is::kText},
                                       {"class", Is::kText},
                                       {"custom_details", Is::kObject}};
  static constexpr Field kLink[] = {{"href", Is::kText, true, kUri}, {"text", Is::kText}};
  if (std::string why = object_fault(event, kEvent); !why.empty()) return why;
  if (event.dump().size() > 512U * 1000) return "it has more than 512 KB";
  if (event["event_action"] != "trigger") return event.contains("dedup_key") ? "" : "dedup_key is missing";
  if (!event.contains("payload")) return "payload is missing";
  if (std::string why = object_fault(event["payload"], kPayload, "payload."); !why.empty()) return why;
  return event.contains("links") ? entries_fault(event["links"], kLink, "links") : "";
}

std::string alertmanager_fault(const json& alerts) {
  static constexpr Field kAlert[] = {{"labels", Is::kObject, true},
                                     {"annotations", Is::kObject},
                                     {"startsAt", Is::kText, false, kTime},
                                     {"endsAt", Is::kText, false, kTime},
                                     {"generatorURL", Is::kText, false, kUri}};
  if (!alerts.is_array()) return "not an array";
  if (std::string why = entries_fault(alerts, kAlert, "alert"); !why.empty()) return why;
  for (const json& alert : alerts) {
    if (alert["labels"].empty()) return "labels are empty";
    if (!alert["labels"].contains("alertname")) return "labels.alertname is missing";
    if (std::string why = texts_fault(alert["labels"], "labels"); !why.empty()) return why;
    if (std::string why = texts_fault(alert.value("annotations", json::object()), "annotations"); !why.empty()) return why;
    if (alert.contains("startsAt") && alert.contains("endsAt") && alert["endsAt"] < alert["startsAt"])
      return "it ends before its start";
  }
  return {};
}

std::string slack_fault(const json& message) {
  static constexpr const char* kEscaped = "([^&<>]|&amp;|&lt;|&gt;)*";
  static constexpr Field kMessage[] = {{"text", Is::kText, true, kEscaped, 40'000},
                                       {"attachments", Is::kArray, false, kAnyText, 100}};
  static constexpr Field kAttachment[] = {
      {"fallback", Is::kText, true, kEscaped}, {"color", Is::kText, false, "good|warning|danger|#[0-9a-fA-F]{6}"},
      {"title", Is::kText, false, kEscaped},   {"title_link", Is::kText, false, kUri},
      {"text", Is::kText, false, kEscaped},    {"ts", Is::kWhole}};
  if (std::string why = object_fault(message, kMessage); !why.empty()) return why;
  return entries_fault(message.value("attachments", json::array()), kAttachment, "attachments");
}

std::string email_fault(const std::string& message) {
  const auto end = message.find("\r\n\r\n");
  if (end == std::string::npos) return "the head has no end";
  std::map<std::string, std::string> head;
  std::string last;
  for (std::size_t at = 0; at < message.size();) {
    const auto stop = message.find("\r\n", at);
    if (stop == std::string::npos) return "the last line has no end";
    const std::string line = message.substr(at, stop - at);
    if (line.find_first_of("\r\n") != std::string::npos) return "a line's end is not CR LF";
    if (line.size() > 998) return "a line is too long";
    if (at < end) {
      if (std::any_of(line.begin(), line.end(), [](unsigned char c) { return c > 0x7e || c < 0x20; }))
        return "the head is not ASCII";
      if (line.starts_with(' ')) {
        head[last] += line;
      } else {
        const auto colon = line.find(": ");
        if (colon == std::string::npos) return "a line of the head has no name";
        last = line.substr(0, colon);
        if (!head.emplace(last, line.substr(colon + 2)).second) return last + " is there twice";
      }
    } else if (at > end + 2 && !std::regex_match(line, std::regex("[A-Za-z0-9+/]{0,76}={0,2}"))) {
      return "the body is not base64 in lines of 76";
    }
    at = stop + 2;
  }
  static const std::map<std::string, std::string> kNeeded{
      {"From", "[^ @]+@[^ @]+"},
      {"To", "[^ @]+@[^ @,]+(, [^ @]+@[^ @,]+)*"},
      {"Subject", R"(=\?UTF-8\?B\?[A-Za-z0-9+/=]{1,60}\?=( =\?UTF-8\?B\?[A-Za-z0-9+/=]{1,60}\?=)*)"},
      {"Date", R"((Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4})"},
      {"Message-ID", "<[^ <>@]+@[^ <>@]+>"},
      {"MIME-Version", R"(1\.0)"},
      {"Content-Type", "text/plain; charset=utf-8"},
      {"Content-Transfer-Encoding", "base64"}};
  for (const auto& [name, form] : kNeeded) {
    if (!head.contains(name)) return name + " is missing";
    if (!std::regex_match(head[name], std::regex(form))) return name + " has another form";
  }
  return {};
}

std::string webhook_fault(const json& body) {
  static constexpr const char* kRanked = "info|warning|critical";
  static constexpr Field kBody[] = {
      {"version", Is::kWhole, true},
      {"key", Is::kText, true, kSome},
      {"alert_id", Is::kText, true, kSome},
      {"transition", Is::kText, true,
       "firing|escalated:(warning|critical)|repeated:[1-9]\\d*|digest:[1-9]\\d*|resolved|test|watchdog"},
      {"state", Is::kText, true, "firing|acknowledged|resolved"},
      {"run", Is::kText, true},
      {"run_uid", Is::kText, true},
      {"labels", Is::kObject, true},
      {"rule", Is::kText, true, "[A-Z][A-Za-z0-9]*"},
      {"severity", Is::kText, true, kRanked},
      {"subject", Is::kText, true},
      {"summary", Is::kText, true, kSome},
      {"title", Is::kText, true, "[^\\n]+"},
      {"message", Is::kText, true, kSome, 2048},
      {"where", Is::kObject, true},
      {"since", Is::kObject, true},
      {"last", Is::kObject, true},
      {"resolved_at", Is::kText, true, kTime, 0, true},
      {"acknowledged_by", Is::kText, true, kAnyText, 0, true},
      {"evidence", Is::kArray, true},
      {"advice", Is::kArray, true},
      {"blame", Is::kObject, true, kAnyText, 0, true},
      {"grouped", Is::kArray, true, kAnyText, 20},
      {"grouped_total", Is::kWhole, true},
      {"link", Is::kText, true, kUri, 0, true},
      {"runbook", Is::kText, true, kUri, 0, true}};
  static constexpr Field kMoment[] = {{"segment", Is::kWhole, true},
                                      {"attempt", Is::kWhole, true},
                                      {"step", Is::kWhole, true},
                                      {"time", Is::kText, true, kTime}};
  static constexpr Field kWhere[] = {
      {"tensor", Is::kText, true, kAnyText, 0, true}, {"role", Is::kText, true, kAnyText, 0, true},
      {"rank", Is::kWhole, true, kAnyText, 0, true},  {"ranks", Is::kArray, true},
      {"kind", Is::kText, true, kAnyText, 0, true},   {"place", Is::kText, true, kAnyText, 0, true},
      {"hosts", Is::kArray, true, kAnyText, 4}};
  static constexpr Field kEvidence[] = {{"name", Is::kText, true, ".+"},
                                        {"value", Is::kNumber, true},
                                        {"unit", Is::kText, true},
                                        {"limit", Is::kNumber, true, kAnyText, 0, true}};
  static constexpr Field kAdvice[] = {
      {"id", Is::kText, true, ".+"}, {"text", Is::kText, true, ".+"}, {"confidence", Is::kNumber, true}};
  if (std::string why = object_fault(body, kBody); !why.empty()) return why;
  if (body["version"] != 1) return "version is not 1";
  for (const auto& [name, value] : body["labels"].items()) {
    if (!value.is_string()) return "labels." + name + " is no text";
  }
  for (const char* moment : {"since", "last"}) {
    if (std::string why = object_fault(body[moment], kMoment, std::string(moment) + "."); !why.empty()) return why;
  }
  if (std::string why = object_fault(body["where"], kWhere, "where."); !why.empty()) return why;
  if (std::string why = entries_fault(body["evidence"], kEvidence, "evidence"); !why.empty()) return why;
  if (std::string why = entries_fault(body["advice"], kAdvice, "advice"); !why.empty()) return why;
  if (body["grouped_total"].get<std::size_t>() < body["grouped"].size()) return "grouped_total is less than what is listed";
  if ((body["transition"] == "resolved") == body["resolved_at"].is_null()) return "resolved_at does not go with the transition";
  return {};
}

}  // namespace scalewatch::alerting
