// The makers that the registry lists.
#pragma once

#include "server/domain/policy.h"

namespace scalewatch::domain {

std::unique_ptr<Policy> make_pytorch_policy(const PolicyParameters& parameters);
std::unique_ptr<Policy> make_static_policy(const PolicyParameters& parameters);
std::unique_ptr<Policy> make_none_policy(const PolicyParameters& parameters);

}  // namespace scalewatch::domain
