// Structured logs: one line an event on standard error, as text or JSON. Lines are queued and written by another thread; when
// standard error is not read, the oldest waiting lines go, and nobody waits. Thread-safe.
// What other rooms log with spdlog's default logger takes the same way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scalewatch::app::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };

using Fields = std::vector<std::pair<std::string_view, std::string>>;

inline constexpr std::size_t kMaxValueBytes = 2048;  // of a message or a field; longer ones are cut, with "..." at the end

// Once, before other threads log; until then nothing is written. `level`: "debug", "info", "warning", "error" or "off";
// `format`: "text" or "json".
void setup(std::string_view level, std::string_view format);
// Writes what is queued.
void shutdown();

void write(Level level, std::string_view message, const Fields& fields = {});
inline void debug(std::string_view message, const Fields& fields = {}) {
  write(Level::kDebug, message, fields);
}
inline void info(std::string_view message, const Fields& fields = {}) {
  write(Level::kInfo, message, fields);
}
inline void warning(std::string_view message, const Fields& fields = {}) {
  write(Level::kWarning, message, fields);
}
inline void error(std::string_view message, const Fields& fields = {}) {
  write(Level::kError, message, fields);
}

// A line without its end, however odd the values are. Pure; the time is Unix milliseconds.
std::string text_line(Level level, std::string_view message, const Fields& fields, std::int64_t time_ms);
std::string json_line(Level level, std::string_view message, const Fields& fields, std::int64_t time_ms);

}  // namespace scalewatch::app::log
