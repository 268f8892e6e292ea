// The checks behind the checklist's items, and what they share. Pure.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "server/domain/checklist.h"

namespace scalewatch::domain::checklist {

Judgement holds(std::string evidence);
Judgement violated(std::string evidence);
Judgement violated(const Finding& finding);  // the finding's sentence is the evidence
Judgement unseen(std::string why, std::string send);

// The worst finding of one of these rules; null when there is none.
const Finding* found(const ChecklistFacts& facts, std::initializer_list<std::string_view> rules);
// The worst Misuse of one of these kinds.
const Finding* misuse(const ChecklistFacts& facts, std::initializer_list<std::string_view> kinds);
// One of the words is a part of the name between dots, underscores and the like: "softmax" is in "block3.softmax.out".
bool has_word(std::string_view name, std::initializer_list<std::string_view> words);
bool sends(const ChecklistFacts& facts, Role role);
bool narrow(DType dtype);  // fewer bits than fp32
bool wide(DType dtype);    // fp32 or fp64

// Scaler and loop.
Judgement dynamic_scale(const ChecklistFacts& facts);
Judgement step_then_update(const ChecklistFacts& facts);
Judgement clip_after_unscale(const ChecklistFacts& facts);
Judgement accumulation(const ChecklistFacts& facts);
Judgement restless(const ChecklistFacts& facts);
Judgement restored(const ChecklistFacts& facts);
Judgement calm(const ChecklistFacts& facts);
// Precision.
Judgement master_weights(const ChecklistFacts& facts);
Judgement optimizer_state(const ChecklistFacts& facts);
Judgement second_moment(const ChecklistFacts& facts);
Judgement decoupled_decay(const ChecklistFacts& facts);
Judgement bf16(const ChecklistFacts& facts);
Judgement reductions(const ChecklistFacts& facts);
Judgement divisions(const ChecklistFacts& facts);
Judgement attention(const ChecklistFacts& facts);
Judgement batch_norm(const ChecklistFacts& facts);
// Practice.
Judgement log_losses(const ChecklistFacts& facts);
Judgement custom_functions(const ChecklistFacts& facts);
Judgement learning_rate(const ChecklistFacts& facts);
Judgement data(const ChecklistFacts& facts);
Judgement fp32_first(const ChecklistFacts& facts);
Judgement autocast(const ChecklistFacts& facts);
Judgement anomaly_mode(const ChecklistFacts& facts);

}  // namespace scalewatch::domain::checklist
