// A run as one HTML page that asks for nothing from elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/cli/attempts.h"
#include "server/cli/checklist_facts.h"
#include "server/cli/checklist_text.h"
#include "server/cli/diagnosis_text.h"
#include "server/cli/finding_text.h"
#include "server/cli/html/svg_plot.h"
#include "server/cli/run_diagnosis.h"
#include "server/cli/text/units.h"
#include "server/cli/views/json_number.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/report_page.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr std::uint64_t kMaxAttempts = 20'000;  // newest, that loss, norm and scale are drawn of
constexpr std::size_t kPoints = 600;
constexpr std::size_t kMaxScalers = 4;
constexpr std::uint32_t kTopTensors = 20;

ReportSeries read_series(Client& client, const std::string& run, const RangeOptions& range, const Screen& screen) {
  ReportSeries out{
      range, html::Series(range.first, range.last, kPoints), html::Series(range.first, range.last, kPoints), {}, {}};
  walk_attempts(client, {run, range, std::nullopt, false, "reading"}, screen, [&](const v1::GetAttemptResponse& page, bool) {
    const auto& attempt = page.attempt();
    if (attempt.has_loss()) out.loss.add(attempt.attempt(), attempt.loss());
    if (attempt.has_grad_norm()) out.norm.add(attempt.attempt(), attempt.grad_norm());
    for (const auto& point : attempt.scalers()) {
      if (out.scales.size() >= kMaxScalers && !out.scales.contains(point.scaler())) continue;
      auto& scale = out.scales.try_emplace(point.scaler(), range.first, range.last, kPoints).first->second;
      if (point.has_scale_before()) scale.add(attempt.attempt(), point.scale_before());
    }
    const auto outcome = outcome_word(attempt);
    if (outcome == "skipped" || outcome == "partial") out.skips.push_back(attempt.attempt());
    return true;
  });
  return out;
}

nlohmann::ordered_json series_json(const html::Series& series) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& point : series.points()) {
    out.push_back({{"first", point.first},
                   {"last", point.last},
                   {"low", json_number(point.low)},
                   {"high", json_number(point.high)},
                   {"nan", point.nan},
                   {"inf", point.inf}});
  }
  return out;
}

void print_json_report(const ReportData& data, const Screen& screen) {
  using Json = nlohmann::ordered_json;
  Json scales = Json::object();
  for (const auto& [scaler, series] : data.series.scales) scales[std::to_string(scaler)] = series_json(series);
  const Json out{{"run", data.run.run().name()},
                 {"run_uid", data.run.run().run_uid()},
                 {"segment", data.run.run().segment()},
                 {"diagnosis", Json::parse(diagnosis_json(data.diagnosis, "server"))},
                 {"checklist", checklist_json(data.checklist)},
                 {"first", data.series.range.first},
                 {"last", data.series.range.last},
                 {"skips", data.series.skips},
                 {"loss", series_json(data.series.loss)},
                 {"grad_norm", series_json(data.series.norm)},
                 {"scales", std::move(scales)}};
  screen.out << out.dump(2, ' ', true, Json::error_handler_t::replace) << '\n';
}

}  // namespace

void write_report(Client& client, const ReportOptions& options, const Screen& screen) {
  v1::GetRunRequest request;
  request.set_run(options.run);
  auto run = client.get_run(request);
  const auto range = closed_range(client, run.run().run_uid(), {run.run().segment(), 0, 0}, kMaxAttempts);
  if (!range) {
    throw CallError("no attempt of " + Screen::name(options.run) + " is stored yet, so there is nothing to report",
                    kExitNothing);
  }
  v1::TopTensorsRequest top;
  top.set_run(run.run().run_uid());
  top.set_by(v1::TopTensorsRequest::BY_HEADROOM);
  top.set_limit(kTopTensors);
  const auto diagnosis = diagnose(run, read_scaler(client, run));
  const ReportData data{run,
                        diagnosis,
                        domain::judge_checklist(checklist_facts(client, run)),
                        read_series(client, run.run().run_uid(), *range, screen),
                        client.top_tensors(top),
                        screen.now_ms};
  if (screen.json) return print_json_report(data, screen);
  write_page(data, screen.out);
  screen.out << std::flush;
  if (!screen.out) throw CallError("the report can't be written: is the disk full?", kExitNothing);
}

}  // namespace scalewatch::cli
