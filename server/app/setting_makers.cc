#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "server/app/settings.h"

namespace scalewatch::app {
namespace {

template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Setting duration(std::string key, std::chrono::milliseconds& field, std::int64_t min, std::int64_t max, std::string help) {
  return {std::move(key), fmt::format("a duration from {} to {}", format_duration(min), format_duration(max)), std::move(help),
          [&field, min, max](const std::string& value) {
            const auto parsed = parse_duration(value);
            if (!parsed || *parsed < min || *parsed > max) return false;
            field = std::chrono::milliseconds(*parsed);
            return true;
          },
          [&field] { return format_duration(field.count()); }};
}

Setting size(std::string key, std::function<std::uint64_t()> get, std::function<void(std::uint64_t)> set, std::uint64_t min,
             std::uint64_t max, std::string help) {
  return {std::move(key), fmt::format("a size from {} to {}", format_size(min), format_size(max)), std::move(help),
          [set = std::move(set), min, max](const std::string& value) {
            const auto parsed = parse_size(value);
            if (!parsed || *parsed < min || *parsed > max) return false;
            set(*parsed);
            return true;
          },
          [get = std::move(get)] { return format_size(get()); }};
}

Setting size(std::string key, std::size_t& field, std::uint64_t min, std::uint64_t max, std::string help) {
  return size(
      std::move(key), [&field] { return field; }, [&field](std::uint64_t value) { field = value; }, min, max, std::move(help));
}

Setting number(std::string key, std::function<std::uint64_t()> get, std::function<void(std::uint64_t)> set, std::uint64_t min,
               std::uint64_t max, std::string help) {
  return {std::move(key), fmt::format("a whole number from {} to {}", min, max), std::move(help),
          [set = std::move(set), min, max](const std::string& value) {
            const auto parsed = parse_number<std::uint64_t>(value);
            if (!parsed || *parsed < min || *parsed > max) return false;
            set(*parsed);
            return true;
          },
          [get = std::move(get)] { return std::to_string(get()); }};
}

Setting real(std::string key, double& field, double min, double max, std::string help) {
  return {std::move(key), fmt::format("a number from {} to {}", min, max), std::move(help),
          [&field, min, max](const std::string& value) {
            const auto parsed = parse_number<double>(value);
            if (!parsed || !(*parsed >= min && *parsed <= max)) return false;
            field = *parsed;
            return true;
          },
          [&field] { return fmt::format("{}", field); }};
}

Setting choice(std::string key, std::string& field, std::vector<std::string> choices, std::string help) {
  std::string expected = fmt::format("one of {}", fmt::join(choices, ", "));
  return {std::move(key), std::move(expected), std::move(help),
          [&field, choices = std::move(choices)](const std::string& value) {
            if (std::find(choices.begin(), choices.end(), value) == choices.end()) return false;
            field = value;
            return true;
          },
          [&field] { return field; }};
}

Setting text(std::string key, std::string& field, std::string help) {
  return {std::move(key), "text without control characters, at most 4096 bytes", std::move(help),
          [&field](const std::string& value) {
            if (value.size() > 4096) return false;
            if (std::any_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return false;
            field = value;
            return true;
          },
          [&field] { return field; }};
}

Setting flag(std::string key, bool& field, std::string help) {
  return {std::move(key), "true or false", std::move(help),
          [&field](const std::string& value) {
            if (value != "true" && value != "false") return false;
            field = value == "true";
            return true;
          },
          [&field] { return std::string(field ? "true" : "false"); }};
}

Setting address(std::string key, Address& field, std::string help) {
  return {std::move(key), "an IP address and a port, like 127.0.0.1:7462 or [::1]:7462", std::move(help),
          [&field](const std::string& value) {
            const auto parsed = parse_address(value);
            if (parsed) field = *parsed;
            return parsed.has_value();
          },
          [&field] { return field.text(); }};
}

}  // namespace scalewatch::app
