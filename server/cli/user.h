// Who runs this program, for what is done in somebody's name.
#pragma once

#include <string>

namespace scalewatch::cli {

// The login name; without one "uid 1000".
std::string user();

}  // namespace scalewatch::cli
