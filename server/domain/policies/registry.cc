#include <array>
#include <cmath>

#include "server/domain/policies/policies.h"

namespace scalewatch::domain {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(const PolicyParameters&);
};

constexpr std::array kPolicies{
    Entry{"pytorch", make_pytorch_policy},
    Entry{"static", make_static_policy},
    Entry{"none", make_none_policy},
};

}  // namespace

std::unique_ptr<Policy> make_policy(std::string_view name, const PolicyParameters& parameters) {
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.make(parameters);
  }
  return nullptr;
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

double parameter_or(const PolicyParameters& parameters, const std::string& name, double fallback) {
  const auto found = parameters.find(name);
  return found != parameters.end() && std::isfinite(found->second) && found->second > 0 ? found->second : fallback;
}

}  // namespace scalewatch::domain
