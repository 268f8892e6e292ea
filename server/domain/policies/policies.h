// The makers that the registry lists.
#pragma once

#include "server/domain/policies/parameters.h"
#include "server/domain/policy.h"

namespace scalewatch::domain {

std::unique_ptr<Policy> make_pytorch_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_static_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_none_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_apex_amp_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_apex_fp16_optimizer_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_megatron_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_deepspeed_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_deepspeed_fused_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_deepspeed_unfused_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_fairseq_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_colossalai_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_paddle_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_paddle_static_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_mindspore_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_keras2_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_keras3_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_flax_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_jmp_policy(ParameterReader& parameters);
std::unique_ptr<Policy> make_optax_policy(ParameterReader& parameters);

}  // namespace scalewatch::domain
