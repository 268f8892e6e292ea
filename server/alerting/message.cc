#include "server/alerting/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "server/alerting/alert_text.h"
#include "server/names/escape.h"

namespace scalewatch::alerting {

namespace {

constexpr std::size_t kMaxTitle = 150;
constexpr std::size_t kMaxLine = 300;
constexpr std::size_t kMaxText = 1500;

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

std::string title_of(const Notice& notice) {
  const v1::Alert& alert = notice.alert;
  const std::string severity = upper(severity_name(alert.finding().severity()));
  std::string out = severity;
  if (notice.transition == kResolved) out = "RESOLVED";
  if (notice.transition == kTest) out = "TEST, " + severity;
  if (notice.transition == kWatchdog) out = "ALIVE";
  if (notice.transition.starts_with(kEscalatedPrefix)) out = "now " + severity;
  if (notice.transition.starts_with(kRepeatedPrefix)) out = "still " + severity;
  if (notice.transition.starts_with(kDigestPrefix)) out = "DIGEST, " + severity;
  out += " " + alert.finding().rule();
  if (!alert.run().empty()) out += " in " + alert.run();
  if (alert.grouped_total() > 0) out += fmt::format(" and {} more", alert.grouped_total());
  return out;
}

std::string where(const v1::Alert& alert) {
  const v1::Finding& finding = alert.finding();
  std::string out = finding.blame().tensor();
  if (out.empty()) out = finding.subject();
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (finding.blame().has_rank_of_origin()) {
    add(fmt::format("rank {}", finding.blame().rank_of_origin()));
  } else if (finding.ranks_size() == 1) {
    add(fmt::format("rank {}", finding.ranks(0)));
  } else if (finding.ranks_size() > 1) {
    add(fmt::format("{} ranks from {}", finding.ranks_size(), finding.ranks(0)));
  }
  if (finding.blame().has_first_bad_micro()) add(fmt::format("micro-batch {}", finding.blame().first_bad_micro()));
  // The first is the rank of origin, where that is known.
  if (!alert.places().empty()) {
    const v1::RankPlace& place = alert.places(0);
    if (!place.host().empty()) add("host " + place.host());
    if (!place.gpu_uuid().empty()) add(place.gpu_uuid());
  }
  return out;
}

std::string since(const v1::Finding& finding) {
  std::string out =
      fmt::format("attempt {}, step {}, {}", finding.first_attempt(), finding.first_step(), rfc3339(finding.first_time_ms()));
  if (finding.last_attempt() > finding.first_attempt()) out += fmt::format("; now attempt {}", finding.last_attempt());
  return out;
}

// The run's, by name: "team=vision, trainer=alice".
std::string labels(const v1::Alert& alert) {
  const std::map<std::string, std::string> sorted(alert.labels().begin(), alert.labels().end());
  std::string out;
  for (const auto& [name, value] : sorted) out += (out.empty() ? "" : ", ") + name + "=" + value;
  return out;
}

// "3 NonFiniteGradient, ScaleCollapse": by rule, most first.
std::string others(const v1::Alert& alert) {
  std::map<std::string, std::uint32_t> counts;
  for (const v1::GroupedAlert& other : alert.grouped()) ++counts[other.rule()];
  std::vector<std::pair<std::string, std::uint32_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [rule, count] : sorted) {
    if (!out.empty()) out += ", ";
    out += count > 1 ? fmt::format("{} {}", count, rule) : rule;
  }
  const auto shown = static_cast<std::uint32_t>(alert.grouped_size());
  if (alert.grouped_total() > shown) out += fmt::format(" and {} more", alert.grouped_total() - shown);
  return out;
}

}  // namespace

std::string readable(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    out += names::escape(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t end = bytes - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + "...";
}

std::string Message::whole() const {
  std::string out = text;
  if (!link.empty()) out += "\nRun: " + link;
  if (!runbook.empty()) out += "\nRunbook: " + runbook;
  return out;
}

Message message_of(const Notice& notice, const std::string& public_url) {
  const v1::Alert& alert = notice.alert;
  const v1::Finding& finding = alert.finding();
  Message out;
  out.title = cut(names::escape(title_of(notice)), kMaxTitle);
  const auto line = [&](std::string_view what, const std::string& value) {
    if (value.empty()) return;
    if (!out.text.empty()) out.text += '\n';
    if (!what.empty()) out.text += fmt::format("{}: ", what);
    out.text += cut(readable(value), kMaxLine);
  };
  if (notice.transition == kTest) line("", "This is a test page: nothing is wrong.");
  line("", finding.summary());
  line("Where", where(alert));
  if (finding.first_attempt() > 0) line("Since", since(finding));
  line("Late", std::string(behind(alert)));
  line("Number", evidence_line(finding));
  if (notice.transition != kResolved && finding.advice_size() > 0) line("Do", finding.advice(0).text());
  if (alert.grouped_total() > 0) line("Also", others(alert));
  line("Labels", labels(alert));
  out.text = cut(std::move(out.text), kMaxText);
  out.link = link(public_url, alert);
  out.runbook = alert.runbook();
  return out;
}

}  // namespace scalewatch::alerting
