#include "server/cli/convert.h"

namespace scalewatch::cli {

namespace {

domain::Blame from_proto(const v1::Blame& blame) {
  domain::Blame out;
  out.tensor = blame.tensor();
  out.role = static_cast<Role>(blame.role());
  out.kind = blame.kind();
  out.where = blame.where();
  if (blame.has_rank_of_origin()) out.rank_of_origin = blame.rank_of_origin();
  out.ranks.assign(blame.ranks().begin(), blame.ranks().end());
  out.nan = blame.nan();
  out.inf = blame.inf();
  out.tensors_non_finite = blame.tensors_non_finite();
  out.attempt = blame.attempt();
  out.step = blame.step();
  out.fastest_falling = blame.fastest_falling();
  out.octaves_fallen = blame.octaves_fallen();
  out.note = blame.note();
  if (blame.has_first_bad_micro()) out.first_bad_micro = blame.first_bad_micro();
  return out;
}

}  // namespace

domain::Finding from_proto(const v1::Finding& finding) {
  domain::Finding out;
  const auto slash = finding.id().find('/');
  out.id = slash == std::string::npos ? finding.id() : finding.id().substr(slash + 1);
  out.rule = finding.rule();
  out.severity = static_cast<domain::Severity>(finding.severity());
  out.subject = finding.subject();
  out.segment = finding.segment();
  out.first_attempt = finding.first_attempt();
  out.last_attempt = finding.last_attempt();
  out.first_step = finding.first_step();
  out.last_step = finding.last_step();
  out.ranks.assign(finding.ranks().begin(), finding.ranks().end());
  out.summary = finding.summary();
  for (const auto& evidence : finding.evidence()) {
    out.evidence.push_back({evidence.name(), evidence.value(), evidence.unit(),
                            evidence.has_limit() ? std::optional<double>(evidence.limit()) : std::nullopt});
  }
  if (finding.has_blame()) out.blame = from_proto(finding.blame());
  for (const auto& advice : finding.advice()) out.advice.push_back({advice.id(), advice.text(), advice.confidence()});
  out.open = finding.open();
  out.first_time = finding.first_time_ms();
  out.last_time = finding.last_time_ms();
  return out;
}

}  // namespace scalewatch::cli
