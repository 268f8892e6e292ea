// Tells a forked child from the process that opened its monitors, without a system call per question.
#pragma once

namespace scalewatch::client {

// Rises by one in every forked child. Call watch_forks() first.
[[nodiscard]] unsigned fork_generation() noexcept;
void watch_forks() noexcept;

}  // namespace scalewatch::client
