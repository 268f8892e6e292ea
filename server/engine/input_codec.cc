#include "server/engine/input_codec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "server/domain/text.h"
#include "server/engine/crc.h"
#include "server/engine/rules_codec.h"
#include "server/engine/text.h"

namespace scalewatch::engine {

namespace {

using nlohmann::json;

json encode(const domain::ScalerInfo& info) {
  return {{"name", info.name}, {"policy", info.policy}, {"parameters", info.parameters}};
}

json encode(const domain::OptimizerInfo& info) {
  json out{{"name", info.name}, {"class", info.class_name}, {"scaler", info.scaler}, {"fused", info.fused}};
  if (info.lr) out["lr"] = *info.lr;
  if (info.eps) out["eps"] = *info.eps;
  if (!info.state_dtypes.empty()) out["state_dtypes"] = info.state_dtypes;
  return out;
}

struct Encoder {
  json operator()(const domain::SegmentOpened& in) const {
    return {{"kind", "segment_opened"}, {"segment", in.segment}, {"now", in.now}};
  }
  json operator()(const domain::RankJoined& in) const {
    json out{{"kind", "rank_joined"},
             {"rank", in.rank},
             {"world_size", in.world_size},
             {"host", in.host},
             {"pid", in.pid},
             {"gpu_uuid", in.gpu_uuid},
             {"framework", in.framework},
             {"compute_dtype", static_cast<int>(in.compute_dtype)},
             {"now", in.now},
             {"scalers", json::array()},
             {"optimizers", json::array()}};
    if (in.from_log) out["from_log"] = true;
    for (const auto& scaler : in.scalers) out["scalers"].push_back(encode(scaler));
    for (const auto& optimizer : in.optimizers) out["optimizers"].push_back(encode(optimizer));
    return out;
  }
  json operator()(const domain::RankLeft& in) const {
    return {{"kind", "rank_left"}, {"rank", in.rank}, {"reason", in.reason}, {"now", in.now}};
  }
  json operator()(const domain::AttemptClosed& in) const {
    return {{"kind", "attempt_closed"}, {"attempt", in.attempt}, {"missing", in.missing}, {"now", in.now}};
  }
  json operator()(const domain::Liveness& in) const {
    json ranks = json::array();
    for (const auto& seen : in.ranks) {
      ranks.push_back({seen.rank, seen.last_seen, seen.connected, static_cast<int>(seen.phase)});
    }
    return {{"kind", "liveness"}, {"ranks", ranks}, {"now", in.now}, {"server_up", in.server_up}};
  }
  json operator()(const domain::ReportsLost& in) const {
    return {{"kind", "reports_lost"},
            {"rank", in.rank},
            {"first_seq", in.first_seq},
            {"last_seq", in.last_seq},
            {"cause", domain::loss_cause_name(in.cause)},
            {"now", in.now}};
  }
  json operator()(const domain::Acknowledged& in) const {
    return {{"kind", "acknowledged"}, {"finding", in.finding_id}, {"who", in.who}, {"comment", in.comment}, {"now", in.now}};
  }
  json operator()(const domain::ServerLag& in) const {
    return {{"kind", "server_lag"}, {"lag", in.lag}, {"refuses", in.history_refuses}, {"why", in.why}, {"now", in.now}};
  }
  json operator()(const domain::RulesChanged& in) const {
    json out{{"kind", "rules_changed"}, {"rules", encode_rules(*in.rules)}, {"now", in.now}};
    if (in.rank) out["rank"] = *in.rank;
    return out;
  }
  json operator()(const domain::AttemptDigest& /*in*/) const {
    throw std::logic_error("a report is logged as itself, not as an input");
  }
};

domain::RankJoined decode_joined(const json& in) {
  domain::RankJoined out;
  in.at("rank").get_to(out.rank);
  in.at("world_size").get_to(out.world_size);
  in.at("host").get_to(out.host);
  in.at("pid").get_to(out.pid);
  in.at("gpu_uuid").get_to(out.gpu_uuid);
  in.at("framework").get_to(out.framework);
  out.compute_dtype = static_cast<DType>(in.at("compute_dtype").get<int>());
  in.at("now").get_to(out.now);
  out.from_log = in.value("from_log", false);
  for (const auto& scaler : in.at("scalers")) {
    out.scalers.push_back({scaler.at("name"), scaler.at("policy"), scaler.at("parameters")});
  }
  for (const auto& optimizer : in.at("optimizers")) {
    domain::OptimizerInfo info{optimizer.at("name"), optimizer.at("class"), optimizer.at("scaler"), {}, optimizer.at("fused")};
    if (optimizer.contains("lr")) info.lr = optimizer.at("lr").get<double>();
    if (optimizer.contains("eps")) info.eps = optimizer.at("eps").get<double>();
    if (optimizer.contains("state_dtypes")) optimizer.at("state_dtypes").get_to(info.state_dtypes);
    out.optimizers.push_back(std::move(info));
  }
  return out;
}

domain::Liveness decode_liveness(const json& in) {
  domain::Liveness out;
  for (const auto& seen : in.at("ranks")) {
    const int phase = seen.size() > 3 ? seen.at(3).get<int>() : 0;
    out.ranks.push_back({seen.at(0), seen.at(1), seen.at(2), static_cast<domain::Phase>(phase)});
  }
  in.at("now").get_to(out.now);
  out.server_up = in.value("server_up", domain::TimeMs{0});
  return out;
}

domain::RulesChanged decode_rules_changed(const json& in) {
  domain::RulesChanged out{std::make_shared<domain::Thresholds>(decode_rules(in.at("rules"))), {}, in.at("now")};
  if (in.contains("rank")) out.rank = in.at("rank").get<domain::Rank>();
  return out;
}

domain::Input decode(const json& in) {
  const std::string kind = in.at("kind");
  if (kind == "segment_opened") return domain::SegmentOpened{in.at("segment"), in.at("now")};
  if (kind == "rank_joined") return decode_joined(in);
  if (kind == "rank_left") return domain::RankLeft{in.at("rank"), in.at("reason"), in.at("now")};
  if (kind == "attempt_closed") return domain::AttemptClosed{in.at("attempt"), in.at("missing"), in.at("now")};
  if (kind == "liveness") return decode_liveness(in);
  if (kind == "reports_lost") {
    return domain::ReportsLost{in.at("rank"), in.at("first_seq"), in.at("last_seq"),
                               domain::loss_cause_of(in.at("cause").get<std::string>()), in.at("now")};
  }
  if (kind == "server_lag") return domain::ServerLag{in.at("lag"), in.at("refuses"), in.at("why"), in.at("now")};
  if (kind == "rules_changed") return decode_rules_changed(in);
  if (kind == "acknowledged") return domain::Acknowledged{in.at("finding"), in.at("who"), in.at("comment"), in.at("now")};
  throw std::runtime_error("logged input of unknown kind '" + kind + "'");
}

// The last member of the object, and its end: a checksum of all before.
constexpr std::size_t kSealBytes = std::string_view(R"(,"crc":"00000000"})").size();

std::string seal_of(std::string_view text) {
  return fmt::format(R"(,"crc":"{:08x}"}})", crc32_of(text));
}

}  // namespace

std::string encode_input(const LoggedInput& input) {
  json out = std::visit(Encoder{}, input.input);
  if (input.incarnation) out["incarnation"] = to_hex(*input.incarnation);
  if (input.segment && std::holds_alternative<domain::AttemptClosed>(input.input)) out["segment"] = *input.segment;
  // Texts were checked or clipped on entry; replace keeps a stray byte from losing the input.
  std::string text = out.dump(-1, ' ', false, json::error_handler_t::replace);
  text.pop_back();
  return text + seal_of(text);
}

LoggedInput decode_input(std::string_view payload) try {
  const json in = json::parse(payload);
  // A digit that changed on disk makes another input of the same form.
  if (in.contains("crc") && (payload.size() < kSealBytes || payload.substr(payload.size() - kSealBytes) !=
                                                                seal_of(payload.substr(0, payload.size() - kSealBytes)))) {
    throw std::runtime_error("logged input is not what was stored");
  }
  LoggedInput out{decode(in), {}};
  const bool closed = std::holds_alternative<domain::AttemptClosed>(out.input);
  if (closed && in.contains("segment")) out.segment = in.at("segment").get<std::uint32_t>();
  if (in.contains("incarnation")) out.incarnation = incarnation_from_hex(in.at("incarnation").get<std::string>());
  return out;
} catch (const json::exception& error) {
  throw std::runtime_error(std::string("logged input does not parse: ") + error.what());
}

}  // namespace scalewatch::engine
