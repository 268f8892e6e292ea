// Kinds of wrong use that clients tell, with what they mean and what to do. A kind that is not here is shown as it was told.
#pragma once

#include <string_view>

namespace scalewatch::domain {

// What it is, for a summary; empty for an unknown kind.
std::string_view misuse_text(std::string_view kind);
// What to do about it; empty for an unknown kind.
std::string_view misuse_advice(std::string_view kind);

}  // namespace scalewatch::domain
