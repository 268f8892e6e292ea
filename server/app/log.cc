#include "server/app/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>

#include <nlohmann/json.hpp>

#include "server/names/escape.h"

namespace scalewatch::app::log {
namespace {

constexpr std::size_t kQueuedLines = 4096;

// Lines of write() are finished before they are queued; those of other rooms, which use spdlog plainly, when they are written.
constexpr const char* kFinished = "finished";
std::shared_ptr<spdlog::logger> finished;  // set once, before other threads start
bool as_json = false;

const char* name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      break;
  }
  return "error";
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      break;
  }
  return spdlog::level::err;
}

Level from_spdlog(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return Level::kDebug;
  if (level == spdlog::level::info) return Level::kInfo;
  return level == spdlog::level::warn ? Level::kWarning : Level::kError;
}

std::string utc(std::int64_t time_ms) {
  const std::time_t seconds = time_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", parts, time_ms % 1000);
}

std::string cut(std::string_view value) {
  return value.size() <= kMaxValueBytes ? std::string(value) : std::string(value.substr(0, kMaxValueBytes)) + "...";
}

nlohmann::ordered_json quoted(std::string_view value) {
  return cut(value);
}

// JSON whose texts hold no character that misleads but escaped (beyond the basic plane as the two units of UTF-16).
std::string dump(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const names::CodePoint point = names::decode(text, i);
    const auto code = static_cast<std::uint32_t>(point.value);
    if (!names::misleads(point.value)) {
      out.append(text, i, point.length);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10U), 0xdc00 + (code & 0x3ffU));
    }
    i += point.length;
  }
  return out;
}

// Bare where that is unambiguous, else as a JSON string, so that a line stays a line.
std::string text_value(std::string_view value) {
  const bool bare = !value.empty() && value.size() <= kMaxValueBytes && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
  return bare ? std::string(value) : dump(quoted(value));
}

}  // namespace

std::string text_line(Level level, std::string_view message, const Fields& fields, std::int64_t time_ms) {
  const std::string escaped = dump(quoted(message));
  std::string line = fmt::format("{} {:<7} {}", utc(time_ms), name(level), escaped.substr(1, escaped.size() - 2));
  for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, text_value(value));
  return line;
}

std::string json_line(Level level, std::string_view message, const Fields& fields, std::int64_t time_ms) {
  nlohmann::ordered_json line = {{"time", utc(time_ms)}, {"level", name(level)}, {"message", cut(message)}};
  for (const auto& [key, value] : fields) line[std::string(key)] = cut(value);
  return dump(line);
}

namespace {

std::string line(Level level, std::string_view message, const Fields& fields, std::int64_t time_ms) {
  return as_json ? json_line(level, message, fields, time_ms) : text_line(level, message, fields, time_ms);
}

std::int64_t unix_ms(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

class LineFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const bool is_finished = std::string_view(message.logger_name.data(), message.logger_name.size()) == kFinished;
    const std::string text =
        is_finished ? std::string(payload) : line(from_spdlog(message.level), payload, {}, unix_ms(message.time));
    out.append(text.data(), text.data() + text.size());
    out.push_back('\n');
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(); }
};

}  // namespace

void setup(std::string_view level, std::string_view format) {
  as_json = format == "json";
  spdlog::init_thread_pool(kQueuedLines, 1);
  const auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  const auto make = [&](const char* logger_name) {
    auto logger = std::make_shared<spdlog::async_logger>(logger_name, sink, spdlog::thread_pool(),
                                                         spdlog::async_overflow_policy::overrun_oldest);
    logger->set_formatter(std::make_unique<LineFormatter>());
    logger->set_level(spdlog::level::from_str(std::string(level)));
    return logger;
  };
  finished = make(kFinished);
  spdlog::set_default_logger(make("rooms"));
}

void shutdown() {
  finished.reset();
  spdlog::shutdown();
}

void write(Level level, std::string_view message, const Fields& fields) {
  if (!finished || !finished->should_log(to_spdlog(level))) return;
  finished->log(to_spdlog(level),
                spdlog::string_view_t(line(level, message, fields, unix_ms(std::chrono::system_clock::now()))));
}

}  // namespace scalewatch::app::log
