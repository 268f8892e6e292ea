#include "server/alerting/alertmanager_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "server/alerting/alert_text.h"
#include "server/alerting/message.h"

namespace scalewatch::alerting {

namespace {

using nlohmann::json;

std::string sanitised(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (out.empty() && digit) out += '_';
    out += letter || digit ? c : '_';
  }
  // Two leading underscores are Prometheus' own.
  return out.empty() || out.starts_with("__") ? "label" + out : out;
}

// Labels whose value is empty are absent to Prometheus and Alertmanager: they are left out.
json labels_of(const v1::Alert& alert, v1::Severity severity) {
  std::map<std::string, std::string> labels{{"alertname", alert.finding().rule()},
                                            {"run", alert.run()},
                                            {"run_uid", alert.run_uid()},
                                            {"severity", std::string(severity_name(severity))},
                                            {"subject", alert.finding().subject()}};
  // Sorted, and names that can stay go first: which of two clashing names is changed never depends on chance.
  const std::map<std::string, std::string> own(alert.labels().begin(), alert.labels().end());
  std::vector<std::pair<std::string, std::string>> changed;
  for (const auto& [name, value] : own) {
    std::string as = sanitised(name);
    if (as != name || !labels.emplace(name, value).second) changed.emplace_back(std::move(as), value);
  }
  for (auto& [as, value] : changed) {
    while (labels.contains(as)) as.insert(0, "label_");
    labels.emplace(std::move(as), std::move(value));
  }
  std::erase_if(labels, [](const auto& label) { return label.second.empty(); });
  return labels;
}

std::string description(const v1::Alert& alert) {
  const v1::Finding& finding = alert.finding();
  if (alert.run().empty()) return finding.summary();
  std::string out = fmt::format("Run {}, segment {}, attempts {} to {}, step {}.", alert.run(), finding.segment(),
                                finding.first_attempt(), finding.last_attempt(), finding.first_step());
  if (!finding.blame().tensor().empty()) out += fmt::format(" First bad tensor: {}.", finding.blame().tensor());
  if (finding.blame().has_rank_of_origin()) out += fmt::format(" Rank of origin: {}.", finding.blame().rank_of_origin());
  for (const v1::RankPlace& place : alert.places()) {
    out += fmt::format(" Rank {}: host {}, GPU {}.", place.rank(), place.host().empty() ? "unknown" : place.host(),
                       place.gpu_uuid().empty() ? "unknown" : place.gpu_uuid());
  }
  if (finding.evidence_size() > 0) out += fmt::format(" Evidence: {}.", evidence_line(finding));
  return out;
}

std::string advice(const v1::Finding& finding) {
  std::string out;
  for (const auto& advice : finding.advice()) {
    if (!out.empty()) out += '\n';
    out += advice.text();
  }
  return out;
}

json alert_of(const v1::Alert& alert, v1::Severity severity, std::int64_t ends_ms, const std::string& public_url) {
  json out = {
      {"labels", labels_of(alert, severity)},
      {"annotations", {{"summary", readable(alert.finding().summary())}, {"description", readable(description(alert))}}},
      {"startsAt", rfc3339(alert.fired_ms())},
      // Alertmanager refuses an end before the start.
      {"endsAt", rfc3339(std::max(ends_ms, alert.fired_ms()))}};
  if (alert.finding().advice_size() > 0) out["annotations"]["advice"] = advice(alert.finding());
  if (!alert.runbook().empty()) out["annotations"]["runbook_url"] = alert.runbook();
  if (std::string address = link(public_url, alert); !address.empty()) out["generatorURL"] = std::move(address);
  return out;
}

}  // namespace

HttpRequest AlertmanagerSink::request(const Notice& notice, std::int64_t now_ms) const {
  const v1::Alert& alert = notice.alert;
  const v1::Severity severity = alert.finding().severity();
  const bool resolved = notice.transition == kResolved;
  json alerts = json::array();
  alerts.push_back(alert_of(alert, severity, resolved ? alert.resolved_ms() : ends_if_forgotten(now_ms), config().public_url));
  if (notice.transition.starts_with(kEscalatedPrefix) && severity > v1::SEVERITY_INFO) {
    const auto below = static_cast<v1::Severity>(severity - 1);
    alerts.push_back(alert_of(alert, below, std::min(alert.finding().last_time_ms(), now_ms), config().public_url));
  }
  return post_alerts(dump(alerts));
}

std::string AlertmanagerSink::order(const v1::Alert& alert) const {
  return alert.run_uid() + '\n' + alert.finding().rule() + '\n' + alert.finding().subject();
}

HttpRequest AlertmanagerSink::reminder(std::span<const v1::Alert> alerts, std::int64_t now_ms) const {
  json out = json::array();
  for (const v1::Alert& alert : alerts) {
    out.push_back(alert_of(alert, alert.finding().severity(), ends_if_forgotten(now_ms), config().public_url));
  }
  return post_alerts(dump(out));
}

HttpRequest AlertmanagerSink::post_alerts(std::string json) const {
  const std::string address = url();
  return post(address.substr(0, address.find_last_not_of('/') + 1) + "/api/v2/alerts", std::move(json));
}

// As Prometheus does it: three reminders may be lost before Alertmanager ends the alert.
std::int64_t AlertmanagerSink::ends_if_forgotten(std::int64_t now_ms) const {
  constexpr std::int64_t kAtLeastMs = 300'000;
  return now_ms + std::max<std::int64_t>(4LL * reminder_ms(), kAtLeastMs);
}

}  // namespace scalewatch::alerting
