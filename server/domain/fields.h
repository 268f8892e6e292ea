// How the contract's plain structs are archived. See archive.h.
#pragma once

#include "server/domain/archive.h"
#include "server/domain/finding.h"
#include "server/domain/observation.h"

namespace scalewatch::domain {

template <class A>
void persist(A& a, ScalerInfo& v) {
  a(v.name, v.policy, v.parameters);
}
template <class A>
void persist(A& a, OptimizerInfo& v) {
  a(v.name, v.class_name, v.scaler, v.lr, v.fused, v.eps, v.state_dtypes);
}
template <class A>
void persist(A& a, OptimizerObservation& v) {
  a(v.optimizer, v.found_inf_local, v.found_inf_decided, v.outcome);
}
template <class A>
void persist(A& a, ScalerObservation& v) {
  a(v.scaler, v.scale_before, v.scale_after, v.growth_tracker, v.hysteresis, v.optimizers, v.applied_before, v.fatal);
}
template <class A>
void persist(A& a, RankDifference& v) {
  a(v.what, v.tensor, v.first, v.other, v.first_value, v.other_value, v.detail);
}
template <class A>
void persist(A& a, MisuseObservation& v) {
  a(v.kind, v.detail, v.raised);
}
template <class A>
void persist(A& a, Evidence& v) {
  a(v.name, v.value, v.unit, v.limit);
}
template <class A>
void persist(A& a, Advice& v) {
  a(v.id, v.text, v.confidence);
}
template <class A>
void persist(A& a, Blame& v) {
  a(v.attempt, v.step, v.tensor, v.role, v.kind, v.where, v.rank_of_origin, v.ranks, v.nan, v.inf, v.tensors_non_finite,
    v.fastest_falling, v.octaves_fallen, v.note, v.first_bad_micro);
}
template <class A>
void persist(A& a, Finding& v) {
  a(v.id, v.rule, v.severity, v.subject, v.segment, v.first_attempt, v.last_attempt, v.first_step, v.last_step, v.ranks);
  a(v.summary, v.evidence, v.blame, v.advice, v.open, v.first_time, v.last_time, v.acknowledged_by, v.acknowledge_comment,
    v.acknowledged_time);
}

}  // namespace scalewatch::domain
