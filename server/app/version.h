#pragma once

namespace scalewatch::app {

inline constexpr const char* kVersion = SCALEWATCH_VERSION;

}  // namespace scalewatch::app
