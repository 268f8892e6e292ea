#include "server/http/table_rows.h"

#include <cctype>
#include <cmath>
#include <string>

namespace scalewatch::http {
namespace {

using Json = nlohmann::ordered_json;

// "ROLE_ACTIVATION" is "activation".
std::string short_name(const std::string& name, std::size_t prefix) {
  std::string out = name.substr(std::min(prefix, name.size()));
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}
std::string role_name(v1::Role role) {
  return short_name(v1::Role_Name(role), std::string("ROLE_").size());
}
std::string severity_name(v1::Severity severity) {
  return short_name(v1::Severity_Name(severity), std::string("SEVERITY_").size());
}

// Sorts by place in forward order, also where rows are sorted as text.
std::string row_name(const v1::TensorInfo& info) {
  std::string place = std::to_string(info.forward_index());
  if (place.size() < 4) place.insert(0, 4 - place.size(), '0');
  return place + " " + info.name() + " " + role_name(info.role());
}

void add_info(Json& row, const v1::TensorInfo& info) {
  row["tensor"] = info.name();
  row["role"] = role_name(info.role());
  row["position"] = info.forward_index();
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Magnitudes without the scale that they were stored under.
void add_record(Json& row, const v1::Record& record) {
  const double scale = record.measured_under_scale() > 0 ? record.measured_under_scale() : 1;
  const std::uint64_t inf = record.pos_inf() + record.neg_inf();
  const std::uint64_t finite = record.numel() - std::min(record.numel(), record.nan() + inf);
  const std::uint64_t non_zero = finite - std::min(finite, record.zero());
  row["numel"] = record.numel();
  row["headroom"] = record.has_headroom() ? Json(record.headroom()) : Json();
  row["absmax"] = record.has_absmax() ? Json(record.absmax() / scale) : Json();
  row["absmin_nonzero"] = record.has_absmin_nonzero() ? Json(record.absmin_nonzero() / scale) : Json();
  row["norm"] = std::sqrt(record.sum_sq()) / scale;
  row["zero_share"] = share(record.zero(), record.numel());
  row["subnormal_share"] = share(record.subnormal(), non_zero);
  row["flushed_share"] = share(record.flushed(), non_zero);
  row["nan"] = record.nan();
  row["inf"] = inf;
  row["over"] = record.over();
  row["measured_under_scale"] = record.measured_under_scale();
}

}  // namespace

Rows tensor_rows(const v1::ListTensorsResponse& response) {
  Rows rows = Rows::array();
  for (const v1::TensorSummary& tensor : response.tensors()) {
    Json row;
    add_info(row, tensor.info());
    row["ranks"] = tensor.ranks();
    row["last_attempt"] = tensor.last_attempt();
    add_record(row, tensor.last());
    row["numel"] = tensor.info().numel();
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows history_rows(const v1::GetTensorHistoryResponse& response, const AttemptTimes& times) {
  Rows rows = Rows::array();
  for (const v1::TensorPoint& point : response.points()) {
    Json row;
    row["time"] = times.at(point.last_attempt());
    row["first_attempt"] = point.first_attempt();
    row["attempt"] = point.last_attempt();
    add_record(row, point.record());
    // The worst of the attempts merged, not that of their union.
    if (point.has_min_headroom()) row["headroom"] = point.min_headroom();
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows scaler_rows(const v1::GetScalerHistoryResponse& response, const AttemptTimes& times) {
  Rows rows = Rows::array();
  for (const v1::ScalerPoint& point : response.points()) {
    Json row;
    row["time"] = times.at(point.last_attempt());
    row["first_attempt"] = point.first_attempt();
    row["attempt"] = point.last_attempt();
    row["step"] = point.last_step();
    row["scale"] = point.has_scale_after() ? Json(point.scale_after()) : Json();
    row["scale_min"] = point.has_scale_min() ? Json(point.scale_min()) : Json();
    row["scale_max"] = point.has_scale_max() ? Json(point.scale_max()) : Json();
    row["growth_tracker"] = point.has_growth_tracker() ? Json(point.growth_tracker()) : Json();
    row["applied"] = point.applied();
    row["skipped"] = point.skipped();
    row["partial"] = point.partial();
    // A mark to draw on the scale where attempts were skipped.
    row["skip_mark"] = point.skipped() > 0 && point.has_scale_max() ? Json(point.scale_max()) : Json();
    row["loss"] = point.has_loss() ? Json(point.loss()) : Json();
    row["non_finite_losses"] = point.non_finite_losses();
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows top_rows(const v1::TopTensorsResponse& response, const AttemptTimes& times) {
  Rows rows = Rows::array();
  for (const v1::TopTensor& tensor : response.tensors()) {
    Json row;
    add_info(row, tensor.info());
    row["value"] = tensor.value();
    row["attempt"] = tensor.attempt();
    row["time"] = tensor.attempt() == 0 ? Json() : Json(times.at(tensor.attempt()));  // a sum has none
    add_record(row, tensor.worst());
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows heat_map_rows(const v1::GetHeatMapResponse& response, const AttemptTimes& times) {
  Rows rows = Rows::array();
  int columns = 0;
  for (const v1::HeatMapRow& tensor : response.rows()) columns = std::max(columns, tensor.cells_size());
  for (int column = 0; column < columns; ++column) {
    const std::uint64_t first = response.range().first() + static_cast<std::uint64_t>(column) * response.column_attempts();
    for (const v1::HeatMapRow& tensor : response.rows()) {
      Json row;
      row["time"] = times.at(first);
      row["first_attempt"] = first;
      row["row"] = row_name(tensor.info());
      add_info(row, tensor.info());
      const bool known = column < tensor.cells_size() && std::isfinite(tensor.cells(column));
      row["value"] = known ? Json(tensor.cells(column)) : Json();
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Rows finding_rows(const v1::GetRunResponse& response, std::int64_t from_ms, std::int64_t to_ms) {
  Rows rows = Rows::array();
  for (const v1::Finding& finding : response.findings()) {
    if (to_ms > 0 && finding.first_time_ms() > to_ms) continue;
    if (from_ms > 0 && !finding.open() && finding.last_time_ms() < from_ms) continue;
    const std::string severity = severity_name(finding.severity());
    Json row;
    row["time"] = finding.first_time_ms();
    row["timeEnd"] = finding.open() ? Json() : Json(finding.last_time_ms());
    row["title"] = severity + ": " + finding.rule();
    row["text"] = finding.summary();
    row["tags"] = finding.rule() + "," + severity;
    row["rule"] = finding.rule();
    row["severity"] = severity;
    row["state"] = finding.open() ? "open" : "resolved";
    row["subject"] = finding.subject();
    row["segment"] = finding.segment();
    row["first_attempt"] = finding.first_attempt();
    row["last_attempt"] = finding.last_attempt();
    row["tensor"] = finding.blame().tensor();
    row["role"] = finding.blame().tensor().empty() ? "" : role_name(finding.blame().role());
    row["where"] = finding.blame().where();
    row["rank"] = finding.blame().has_rank_of_origin() ? Json(finding.blame().rank_of_origin()) : Json();
    row["advice"] = finding.advice_size() > 0 ? finding.advice(0).text() : "";
    row["id"] = finding.id();
    rows.push_back(std::move(row));
  }
  return rows;
}

Rows rank_rows(const v1::GetRunResponse& response) {
  Rows rows = Rows::array();
  for (const v1::RankSummary& rank : response.ranks()) {
    Json row;
    row["rank"] = rank.rank();
    row["host"] = rank.host();
    row["pid"] = rank.pid();
    row["gpu_uuid"] = rank.gpu_uuid();
    row["state"] = rank.said_goodbye() ? "finished" : rank.connected() ? "connected" : "gone";
    row["last_seen"] = rank.last_seen_ms();
    row["last_attempt"] = rank.last_attempt();
    row["lost_reports"] = rank.lost_reports();
    row["thinned_reports"] = rank.thinned_reports();
    row["buffered_bytes"] = rank.buffered_bytes();
    row["spooled_bytes"] = rank.spooled_bytes();
    row["trainer_thread_ms"] = static_cast<double>(rank.trainer_thread_ns()) * 1e-6;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace scalewatch::http
