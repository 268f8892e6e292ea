#include "server/cli/views/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "server/cli/finding_text.h"
#include "server/cli/html/svg_plot.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

using html::escape;

constexpr std::size_t kMaxFindings = 100;
constexpr int kMaxRanks = 64;

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--fg:#1c2128;--bg:#fff;--dim:#66707b;--rule:#d8dee4;--line:#1f6feb;--bad:#c62828;--warn:#a86400;--good:#1a7f37}
@media (prefers-color-scheme:dark){:root{--fg:#dde3ea;--bg:#14181d;--dim:#8b95a0;--rule:#333b44;--line:#6cb0ff;--bad:#ff7b72;--warn:#e3a94d;--good:#5fd07a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:900px;margin:2em auto;padding:0 1em;overflow-wrap:anywhere}
h1{font-size:1.5em;margin:0}h2{font-size:1.15em;margin:2em 0 .6em;border-bottom:1px solid var(--rule)}
.critical,.violated{color:var(--bad)}.warning{color:var(--warn)}.healthy,.info,.holds{color:var(--good)}.dim{color:var(--dim)}
table{border-collapse:collapse;width:100%;font-size:.92em}th{text-align:left;font-weight:600;color:var(--dim)}
td,th{padding:.2em .6em .2em 0;vertical-align:top;border-bottom:1px solid var(--rule)}.r{text-align:right;white-space:nowrap}
section.f{margin:1em 0;padding-left:.8em;border-left:3px solid var(--rule)}section.f.critical{border-color:var(--bad)}section.f.warning{border-color:var(--warn)}
section.f.critical,section.f.warning,section.f.info{color:var(--fg)}.v{white-space:nowrap}
section.f p,section.f ul{margin:.2em 0}section.f ul{padding-left:1.2em}
svg{width:100%;height:auto;margin:.4em 0}svg text{font:11px system-ui,sans-serif;fill:var(--dim)}svg .t{font-size:13px;font-weight:600;fill:var(--fg)}
svg .m{fill:var(--bad)}svg .g{stroke:var(--rule)}svg .l{fill:none;stroke:var(--line);stroke-width:1.4}svg .e{stroke:var(--line);stroke-width:1.2;opacity:.45}
svg .n{fill:var(--bad)}svg .s{fill:var(--warn)}
)css";

std::string_view severity_class(domain::Severity severity) {
  return severity == domain::Severity::kNone ? "healthy" : severity_word(severity);
}

void write_head(const ReportData& data, std::ostream& out) {
  const auto& run = data.run.run();
  const auto name = escape(run.name());
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>"
      << name << " - Scalewatch</title>\n<style>" << kStyle << "</style></head><body>\n";
  out << fmt::format("<h1>{} <span class=\"{}\">{}</span></h1>\n", name, severity_class(data.diagnosis.verdict),
                     domain::verdict_text(data.diagnosis.verdict));
  out << "<p>" << escape(data.diagnosis.headline) << "</p>\n";
  std::string facts = fmt::format(
      "{}: {} applied, {} skipped ({}), {} partial; segment {}; {} of {} ranks connected; {}",
      text::plural(run.attempts(), "attempt"), text::exact(run.applied()), text::exact(run.skipped()),
      text::percent(static_cast<double>(run.skipped()), static_cast<double>(run.attempts())), text::exact(run.partial()),
      run.segment(), run.ranks_connected(), run.world_size(), status_word(run.status()));
  if (!run.framework().empty()) facts += "; " + run.framework();
  if (run.compute_dtype() != v1::DTYPE_UNSPECIFIED) facts += fmt::format("; {} compute", dtype_word(run.compute_dtype()));
  if (run.lost_reports() > 0) facts += "; " + text::plural(run.lost_reports(), "report") + " lost";
  out << "<p class=\"dim\">" << escape(facts) << "<br>\nrun " << escape(run.run_uid()) << ", last report "
      << text::utc(run.last_report_ms()) << ", page made " << text::utc(data.now_ms) << "</p>\n";
}

void write_plots(const ReportData& data, std::ostream& out) {
  const auto& series = data.series;
  out << "<h2>Over attempts</h2>\n";
  if (series.range.first > 1) {
    out << fmt::format("<p class=\"dim\">Attempts {} to {}; what came before is left out or no longer stored.</p>\n",
                       text::exact(series.range.first), text::exact(series.range.last));
  }
  bool any = false;
  const auto plot = [&](const std::string& title, const html::Series& from, html::Axis axis, bool skips) {
    if (from.empty()) return;
    any = true;
    out << html::svg({title, series.range.first, series.range.last, axis, from.points(),
                      skips ? series.skips : std::vector<std::uint64_t>{}});
  };
  for (const auto& [scaler, scale] : series.scales) {
    plot(series.scales.size() > 1 ? fmt::format("loss scale of scaler {}", scaler) : "loss scale", scale, html::Axis::kLog2,
         true);
  }
  plot("loss", series.loss, html::axis_for(series.loss.points()), series.scales.empty());
  plot("gradient norm, as the trainer reported it", series.norm, html::axis_for(series.norm.points()), false);
  if (!any) out << "<p>Neither scale nor loss nor gradient norm was reported.</p>\n";
}

void write_finding(const domain::Finding& finding, std::ostream& out) {
  out << fmt::format("<section class=\"f {0}\"><b class=\"{0}\">{0}</b> <b>{1}</b>{2}, {3}{4}\n",
                     severity_class(finding.severity), escape(finding.rule),
                     finding.subject.empty() ? "" : " of " + escape(finding.subject), escape(when_text(finding)),
                     finding.open ? "" : ", resolved");
  out << "<p>" << escape(finding.summary) << "</p>\n";
  if (finding.blame) {
    out << "<p><span class=\"dim\">where</span> " << escape(blame_text(*finding.blame));
    if (!finding.blame->fastest_falling.empty()) {
      out << fmt::format("; headroom fell fastest in {}: {:.1f} octaves", escape(finding.blame->fastest_falling),
                         finding.blame->octaves_fallen);
    }
    if (!finding.blame->note.empty()) out << ". " << escape(finding.blame->note);
    out << "</p>\n";
  }
  if (!finding.evidence.empty()) {
    std::string numbers;
    for (const auto& evidence : finding.evidence) numbers += (numbers.empty() ? "" : ", ") + evidence_text(evidence);
    out << "<p><span class=\"dim\">numbers</span> " << escape(numbers) << "</p>\n";
  }
  if (!finding.advice.empty()) {
    out << "<ul>\n";
    for (const auto& advice : finding.advice) {
      out << fmt::format("<li>{} <span class=\"dim\">({:.0f}% sure)</span></li>\n", escape(advice.text),
                         advice.confidence >= 0 && advice.confidence <= 1 ? 100 * advice.confidence : 0);
    }
    out << "</ul>\n";
  }
  out << "</section>\n";
}

void write_findings(const ReportData& data, std::ostream& out) {
  out << "<h2>Findings</h2>\n";
  const auto& findings = data.diagnosis.findings;
  if (findings.empty()) out << "<p>None.</p>\n";
  for (std::size_t i = 0; i < std::min(kMaxFindings, findings.size()); ++i) write_finding(findings[i], out);
  if (findings.size() > kMaxFindings) {
    out << "<p>" << text::plural(findings.size() - kMaxFindings, "more finding") << " are left out.</p>\n";
  }
}

void write_checklist(const ReportData& data, std::ostream& out) {
  out << "<h2>Checklist</h2>\n<table><tr><th>item</th><th>verdict</th><th>why; what to send so that it shows</th></tr>\n";
  for (const auto& item : data.checklist) {
    const auto& j = item.judgement;
    out << fmt::format("<tr><td>{}</td><td class=\"v {}\">{}</td><td>{}{}</td></tr>\n", escape(item.title),
                       j.verdict == domain::Verdict::kNotObservable ? std::string_view("dim") : domain::verdict_word(j.verdict),
                       domain::verdict_word(j.verdict), escape(j.evidence),
                       j.send.empty() ? "" : "; <span class=\"dim\">send</span> " + escape(j.send));
  }
  out << "</table>\n";
}

void write_tensors(const ReportData& data, std::ostream& out) {
  if (data.top.tensors().empty()) return;
  out << fmt::format(
      "<h2>Least headroom</h2>\n<p class=\"dim\">In attempts {}. Octaves between the largest stored value and the largest "
      "that the format holds.</p>\n",
      attempts_text(data.top.range().first(), data.top.range().last()));
  out << "<table><tr><th>tensor</th><th>role</th><th class=\"r\">octaves</th><th class=\"r\">absmax, unscaled</th><th "
         "class=\"r\">attempt</th><th class=\"r\">NaN</th><th class=\"r\">Inf</th></tr>\n";
  for (const auto& tensor : data.top.tensors()) {
    out << fmt::format(
        "<tr><td>{}</td><td>{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td "
        "class=\"r\">{}</td><td class=\"r\">{}</td></tr>\n",
        escape(tensor.info().name()), role_word(static_cast<Role>(tensor.info().role())), headroom_cell(tensor.value()).text,
        absmax_cell(tensor.worst()).text, tensor.attempt(), text::count(tensor.worst().nan()),
        text::count(infinities(tensor.worst())));
  }
  out << "</table>\n";
}

void write_ranks(const ReportData& data, std::ostream& out) {
  if (data.run.ranks().empty()) return;
  out << "<h2>Ranks</h2>\n<table><tr><th class=\"r\">rank</th><th>host</th><th class=\"r\">pid</th><th>state</th><th "
         "class=\"r\">last attempt</th><th class=\"r\">lost reports</th></tr>\n";
  for (int i = 0; i < std::min(kMaxRanks, data.run.ranks_size()); ++i) {
    const auto& rank = data.run.ranks(i);
    out << fmt::format(
        "<tr><td class=\"r\">{}</td><td>{}</td><td class=\"r\">{}</td><td>{}</td><td class=\"r\">{}</td><td "
        "class=\"r\">{}</td></tr>\n",
        rank.rank(), escape(rank.host()), rank.pid(),
        rank.said_goodbye() ? "finished"
        : rank.connected()  ? "connected"
                            : "<span class=\"critical\">gone</span>",
        rank.last_attempt(), text::exact(rank.lost_reports()));
  }
  out << "</table>\n";
  if (data.run.ranks_size() > kMaxRanks) {
    out << "<p class=\"dim\">" << text::plural(static_cast<std::uint64_t>(data.run.ranks_size() - kMaxRanks), "more rank")
        << ".</p>\n";
  }
}

}  // namespace

void write_page(const ReportData& data, std::ostream& out) {
  write_head(data, out);
  write_plots(data, out);
  write_findings(data, out);
  write_checklist(data, out);
  write_tensors(data, out);
  write_ranks(data, out);
  out << "</body></html>\n";
}

}  // namespace scalewatch::cli
