#include "server/engine/finding_codec.h"

namespace scalewatch::engine {

namespace {

void fill(const domain::Blame& from, v1::Blame& to) {
  to.set_tensor(from.tensor);
  to.set_attempt(from.attempt);
  to.set_step(from.step);
  to.set_role(static_cast<v1::Role>(from.role));
  to.set_kind(from.kind);
  to.set_where(from.where);
  if (from.rank_of_origin) to.set_rank_of_origin(*from.rank_of_origin);
  to.mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
  to.set_nan(from.nan);
  to.set_inf(from.inf);
  to.set_tensors_non_finite(from.tensors_non_finite);
  to.set_fastest_falling(from.fastest_falling);
  to.set_octaves_fallen(from.octaves_fallen);
  to.set_note(from.note);
  if (from.first_bad_micro) to.set_first_bad_micro(*from.first_bad_micro);
}

}  // namespace

std::string finding_id(const std::string& run_uid, const domain::Finding& finding) {
  return run_uid + "/" + finding.id;
}

v1::Finding to_proto(const std::string& run_uid, const domain::Finding& finding) {
  v1::Finding out;
  out.set_id(finding_id(run_uid, finding));
  out.set_rule(finding.rule);
  out.set_severity(static_cast<v1::Severity>(finding.severity));
  out.set_subject(finding.subject);
  out.set_segment(finding.segment);
  out.set_first_attempt(finding.first_attempt);
  out.set_last_attempt(finding.last_attempt);
  out.set_first_step(finding.first_step);
  out.set_last_step(finding.last_step);
  out.mutable_ranks()->Add(finding.ranks.begin(), finding.ranks.end());
  out.set_summary(finding.summary);
  for (const auto& evidence : finding.evidence) {
    auto* to = out.add_evidence();
    to->set_name(evidence.name);
    to->set_value(evidence.value);
    to->set_unit(evidence.unit);
    if (evidence.limit) to->set_limit(*evidence.limit);
  }
  if (finding.blame) fill(*finding.blame, *out.mutable_blame());
  for (const auto& advice : finding.advice) {
    auto* to = out.add_advice();
    to->set_id(advice.id);
    to->set_text(advice.text);
    to->set_confidence(advice.confidence);
  }
  out.set_open(finding.open);
  out.set_first_time_ms(finding.first_time);
  out.set_last_time_ms(finding.last_time);
  return out;
}

}  // namespace scalewatch::engine
