#include "server/alerting/webhook_fields.h"

#include "server/alerting/alert_text.h"
#include "server/alerting/message.h"

namespace scalewatch::alerting {

namespace {

using nlohmann::json;

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

template <class Repeated>
json array_of(const Repeated& values) {
  json out = json::array();
  for (const auto& value : values) out.push_back(value);
  return out;
}

json role_name(v1::Role role) {
  switch (role) {
    case v1::ROLE_GRADIENT:
      return "gradient";
    case v1::ROLE_PARAMETER:
      return "parameter";
    case v1::ROLE_ACTIVATION:
      return "activation";
    case v1::ROLE_ACTIVATION_GRADIENT:
      return "activation_gradient";
    case v1::ROLE_OPTIMIZER_STATE:
      return "optimizer_state";
    case v1::ROLE_BUFFER:
      return "buffer";
    default:
      return nullptr;
  }
}

std::string_view state_name(v1::AlertState state) {
  switch (state) {
    case v1::ALERT_STATE_ACKNOWLEDGED:
      return "acknowledged";
    case v1::ALERT_STATE_RESOLVED:
      return "resolved";
    default:
      return "firing";
  }
}

json places(const v1::Alert& alert) {
  json out = json::array();
  for (const v1::RankPlace& place : alert.places()) {
    out.push_back({{"rank", place.rank()}, {"host", text_or_null(place.host())}, {"gpu", text_or_null(place.gpu_uuid())}});
  }
  return out;
}

json grouped(const v1::Alert& alert) {
  json out = json::array();
  for (const v1::GroupedAlert& other : alert.grouped()) {
    out.push_back({{"alert_id", other.id()},
                   {"run", other.run()},
                   {"rule", other.rule()},
                   {"severity", severity_name(other.severity())},
                   {"subject", other.subject()},
                   {"summary", other.summary()}});
  }
  return out;
}

json where(const v1::Alert& alert) {
  const v1::Finding& finding = alert.finding();
  json rank = nullptr;
  if (finding.ranks_size() == 1) rank = finding.ranks(0);
  if (finding.blame().has_rank_of_origin()) rank = finding.blame().rank_of_origin();
  return {{"tensor", text_or_null(finding.blame().tensor())},
          {"role", role_name(finding.blame().role())},
          {"rank", rank},
          {"ranks", array_of(finding.ranks())},
          {"kind", text_or_null(finding.blame().kind())},
          {"place", text_or_null(finding.blame().where())},
          {"hosts", places(alert)}};
}

json blame(const v1::Finding& finding) {
  if (!finding.has_blame()) return nullptr;
  const v1::Blame& from = finding.blame();
  return {{"tensor", from.tensor()},
          {"role", role_name(from.role())},
          {"kind", from.kind()},
          {"place", from.where()},
          {"rank_of_origin", from.has_rank_of_origin() ? json(from.rank_of_origin()) : json(nullptr)},
          {"ranks", array_of(from.ranks())},
          {"nan", from.nan()},
          {"inf", from.inf()},
          {"first_bad_micro", from.has_first_bad_micro() ? json(from.first_bad_micro()) : json(nullptr)},
          {"attempt", from.attempt()},
          {"step", from.step()},
          {"tensors_non_finite", from.tensors_non_finite()},
          {"fastest_falling", from.fastest_falling()},
          {"octaves_fallen", number(from.octaves_fallen())},
          {"note", from.note()}};
}

json evidence(const v1::Finding& finding) {
  json out = json::array();
  for (const auto& from : finding.evidence()) {
    out.push_back({{"name", from.name()},
                   {"value", number(from.value())},
                   {"unit", from.unit()},
                   {"limit", from.has_limit() ? number(from.limit()) : json(nullptr)}});
  }
  return out;
}

json advice(const v1::Finding& finding) {
  json out = json::array();
  for (const auto& from : finding.advice()) {
    out.push_back({{"id", from.id()}, {"text", from.text()}, {"confidence", number(from.confidence())}});
  }
  return out;
}

json labels(const v1::Alert& alert) {
  json out = json::object();
  for (const auto& [name, value] : alert.labels()) out[name] = value;
  return out;
}

}  // namespace

nlohmann::json webhook_fields(const Notice& notice, const std::string& public_url) {
  const v1::Alert& alert = notice.alert;
  const v1::Finding& finding = alert.finding();
  const Message message = message_of(notice, public_url);
  return {
      {"version", 1},
      {"key", notice.key},
      {"alert_id", alert.id()},
      {"transition", notice.transition},
      {"state", state_name(alert.state())},
      {"run", alert.run()},
      {"run_uid", alert.run_uid()},
      {"labels", labels(alert)},
      {"rule", finding.rule()},
      {"severity", severity_name(finding.severity())},
      {"subject", finding.subject()},
      {"summary", finding.summary()},
      {"title", message.title},
      {"message", message.whole()},
      {"where", where(alert)},
      {"since",
       {{"segment", finding.segment()},
        {"attempt", finding.first_attempt()},
        {"step", finding.first_step()},
        {"time", rfc3339(finding.first_time_ms())}}},
      {"last",
       {{"segment", finding.segment()},
        {"attempt", finding.last_attempt()},
        {"step", finding.last_step()},
        {"time", rfc3339(finding.last_time_ms())}}},
      {"resolved_at", alert.resolved_ms() == 0 ? json(nullptr) : json(rfc3339(alert.resolved_ms()))},
      {"acknowledged_by", text_or_null(alert.acknowledged_by())},
      {"evidence", evidence(finding)},
      {"advice", advice(finding)},
      {"blame", blame(finding)},
      {"grouped", grouped(alert)},
      {"grouped_total", alert.grouped_total()},
      {"link", text_or_null(message.link)},
      {"runbook", text_or_null(message.runbook)},
  };
}

}  // namespace scalewatch::alerting
