#include <array>
#include <cmath>
#include <iterator>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(ParameterReader&);
};

constexpr std::array kPolicies{
    Entry{"pytorch", make_pytorch_policy},
    Entry{"apex_amp", make_apex_amp_policy},
    Entry{"apex_fp16_optimizer", make_apex_fp16_optimizer_policy},
    Entry{"megatron", make_megatron_policy},
    Entry{"deepspeed", make_deepspeed_policy},  // ZeRO
    Entry{"deepspeed_fused", make_deepspeed_fused_policy},
    Entry{"deepspeed_unfused", make_deepspeed_unfused_policy},
    Entry{"fairseq", make_fairseq_policy},
    Entry{"colossalai", make_colossalai_policy},
    Entry{"paddle", make_paddle_policy},  // the dygraph path, which prints
    Entry{"paddle_static", make_paddle_static_policy},
    Entry{"mindspore", make_mindspore_policy},
    Entry{"keras2", make_keras2_policy},
    Entry{"keras3", make_keras3_policy},
    Entry{"flax", make_flax_policy},
    Entry{"jmp", make_jmp_policy},
    Entry{"optax", make_optax_policy},
    Entry{"static", make_static_policy},
    Entry{"none", make_none_policy},
};

const Entry* find(std::string_view name) {
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyParameters& parameters) {
  const Entry* entry = find(name);
  if (entry == nullptr) return nullptr;
  ParameterReader reader(parameters);
  return entry->make(reader);
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  names.reserve(std::size(kPolicies));
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

std::optional<ParameterCheck> check_parameters(std::string_view name, const PolicyParameters& parameters) {
  const Entry* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  ParameterReader reader(parameters);
  entry->make(reader);
  return reader.check();
}

double parameter_or(const PolicyParameters& parameters, const std::string& name, double fallback) {
  const auto found = parameters.find(name);
  return found != parameters.end() && std::isfinite(found->second) && found->second > 0 ? found->second : fallback;
}

}  // namespace scalewatch::domain
