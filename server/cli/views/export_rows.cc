#include "server/cli/views/export_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/names/escape.h"

namespace scalewatch::cli {

namespace {

using Json = nlohmann::json;

// Shortest text that reads back as the same double.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return fmt::format("{}", value);
}

// As RFC 4180 has it, for a text that holds a separator, a quote or a line end.
std::string quoted(const std::string& bytes) {
  std::string text = names::escape(bytes);
  // Spreadsheets run what begins like this as a formula; behind an apostrophe they show it.
  if (text.find_first_of("=+-@") == 0) text.insert(0, 1, '\'');
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string json_text(const std::string& bytes) {
  return Json(bytes).dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string cell(const Field& field, bool json) {
  struct Visitor {
    bool as_json;
    std::string operator()(std::monostate /*absent*/) const { return as_json ? "null" : ""; }
    std::string operator()(std::uint64_t value) const { return fmt::format("{}", value); }
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const {
      const auto text = number(value);
      return as_json && !std::isfinite(value) ? '"' + text + '"' : text;
    }
    std::string operator()(const std::string& value) const { return as_json ? json_text(value) : quoted(value); }
    std::string operator()(bool value) const { return value ? (as_json ? "true" : "1") : (as_json ? "false" : "0"); }
  };
  return std::visit(Visitor{json}, field);
}

}  // namespace

RowWriter::RowWriter(std::ostream& out, std::vector<std::string_view> names, bool json_lines)
    : out_(out), names_(std::move(names)), json_lines_(json_lines) {
  if (json_lines_) return;
  out_ << fmt::format("{}\n", fmt::join(names_, ","));
}

void RowWriter::write(const std::vector<Field>& row) {
  line_.clear();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (i > 0) line_ += ',';
    if (json_lines_) fmt::format_to(std::back_inserter(line_), "\"{}\":", names_[i]);
    line_ += cell(row.at(i), json_lines_);
  }
  out_ << (json_lines_ ? "{" : "") << line_ << (json_lines_ ? "}\n" : "\n");
  ++rows_;
}

}  // namespace scalewatch::cli
