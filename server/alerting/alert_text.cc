#include "server/alerting/alert_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "server/alerting/sink_config.h"

namespace scalewatch::alerting {

namespace {

constexpr std::string_view kBehind = "; the server was ";

}  // namespace

std::string rfc3339(std::int64_t unix_ms) {
  // Years 0000 to 9999 are all that the format can say.
  const std::int64_t shown = std::clamp<std::int64_t>(unix_ms, -62'167'219'200'000, 253'402'300'799'999);
  const std::int64_t seconds = (shown - (((shown % 1000) + 1000) % 1000)) / 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(seconds)), shown - seconds * 1000);
}

nlohmann::json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string percent_encoded(std::string_view text, std::string_view keep) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '.' || c == '_' || c == '~';
    if (unreserved || keep.find(c) != std::string_view::npos) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string_view severity_name(v1::Severity severity) {
  return severity_name(static_cast<domain::Severity>(severity));
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::string who_fault(std::string_view who) {
  constexpr std::size_t kMaxWho = 128;
  if (!who.empty() && who.size() <= kMaxWho && !has_control(who)) return {};
  return fmt::format("who must be 1 to {} bytes without control characters", kMaxWho);
}

std::string evidence_line(const v1::Finding& finding) {
  std::string out;
  for (const auto& evidence : finding.evidence()) {
    if (!out.empty()) out += ", ";
    fmt::format_to(std::back_inserter(out), "{} {:.6g}", evidence.name(), evidence.value());
    if (!evidence.unit().empty()) out += " " + evidence.unit();
    if (evidence.has_limit()) fmt::format_to(std::back_inserter(out), " (limit {:.6g})", evidence.limit());
  }
  return out;
}

void note_behind(v1::Alert& alert, double seconds) {
  v1::AlertTransition& newest = *alert.mutable_trail()->rbegin();
  newest.set_what(fmt::format("{}{}{:.1f} s behind", newest.what(), kBehind, seconds));
}

std::string_view behind(const v1::Alert& alert) {
  if (alert.trail().empty()) return {};
  const std::int64_t newest_ms = alert.trail().rbegin()->time_ms();
  for (auto entry = alert.trail().rbegin(); entry != alert.trail().rend() && entry->time_ms() == newest_ms; ++entry) {
    const std::string_view what = entry->what();
    if (const auto at = what.rfind(kBehind); at != std::string_view::npos) return what.substr(at + 2);
  }
  return {};
}

std::string link(const std::string& public_url, const v1::Alert& alert) {
  if (public_url.empty()) return {};
  const std::string_view base(public_url.data(), public_url.find_last_not_of('/') + 1);
  if (alert.run_uid().empty()) return std::string(base);  // the Watchdog is of no run
  return fmt::format("{}/api/v1/runs/{}", base, percent_encoded(alert.run_uid(), ""));
}

}  // namespace scalewatch::alerting
