#include "server/cli/views/replay_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "server/cli/client.h"
#include "server/names/escape.h"

namespace scalewatch::cli {
namespace {

constexpr std::size_t kShown = 60;  // bytes of somebody's text in a message

std::string quoted(std::string_view text) {
  return '"' + names::escape(text.substr(0, kShown)) + (text.size() > kShown ? "...\"" : "\"");
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_value(std::string_view text) {
  if (text == "True" || text == "true") return 1;
  if (text == "False" || text == "false") return 0;
  return parse<double>(text);
}

class Reader {
 public:
  Reader(std::istream& in, const std::string& name) : in_(in), name_(name) {}

  // The next line without its end; false at the end of the input.
  bool next(std::string& line) {
    line.clear();
    bool any = false;
    for (int c = in_.get(); c != std::istream::traits_type::eof(); c = in_.get()) {
      any = true;
      if (c == '\n') break;
      if (line.size() >= Trace::kMaxLine) {
        ++number_;
        fail(fmt::format("the line is longer than {} bytes", Trace::kMaxLine));
      }
      line.push_back(static_cast<char>(c));
    }
    if (in_.bad()) throw CallError(fmt::format("{} can't be read to its end", names::escape(name_)), kExitNothing);
    if (!any) return false;
    ++number_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    return true;
  }
  [[nodiscard]] std::size_t number() const { return number_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw CallError(fmt::format("{}:{}: {}", names::escape(name_), number_, what), kExitNothing);
  }

 private:
  std::istream& in_;
  const std::string& name_;
  std::size_t number_ = 0;
};

// The fields of a CSV line; a field in double quotes may hold commas, and a quote that is doubled.
void split(const std::string& line, std::vector<std::string>& fields, const Reader& reader) {
  fields.assign(1, {});
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (inside && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back().push_back(line[++i]);
    } else if (line[i] == '"') {
      inside = !inside;
    } else if (line[i] == ',' && !inside) {
      fields.emplace_back();
    } else {
      fields.back().push_back(line[i]);
    }
  }
  if (inside) reader.fail("a quoted field does not end on its line");
}

std::size_t column(const std::vector<std::string>& header, std::string_view name, const Reader& reader) {
  const auto is_it = [&](const std::string& field) { return trimmed(field) == name; };
  const auto found = std::find_if(header.begin(), header.end(), is_it);
  if (found == header.end()) {
    reader.fail(fmt::format("the header has no column {}; it needs step and found_inf", quoted(name)));
  }
  if (std::find_if(found + 1, header.end(), is_it) != header.end()) {
    reader.fail(fmt::format("the header has column {} twice", quoted(name)));
  }
  return static_cast<std::size_t>(found - header.begin());
}

// `# POLICY parameter=value ...`
void read_policy(const std::string& line, Trace& trace, const Reader& reader) {
  std::string_view rest = trimmed(std::string_view(line).substr(1));
  trace.policy_line = reader.number();
  while (!rest.empty()) {
    const auto end = std::min(rest.find_first_of(" \t"), rest.size());
    const std::string word(rest.substr(0, end));
    rest = trimmed(rest.substr(end));
    if (trace.policy.empty()) {
      trace.policy = word;
    } else if (word.ends_with("=None")) {
      continue;  // as if it were not given
    } else if (!add_setting(trace.parameters, word)) {
      reader.fail(fmt::format("{} is not parameter=number", quoted(word)));
    }
  }
  if (const auto why = refusal(trace.policy, trace.parameters); !why.empty()) reader.fail(why);
}

}  // namespace

bool add_setting(domain::PolicyParameters& parameters, const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const auto value = parse_value(std::string_view(setting).substr(equals + 1));
  if (!value) return false;
  parameters[setting.substr(0, equals)] = *value;
  return true;
}

std::string refusal(const std::string& policy, const domain::PolicyParameters& parameters) {
  const auto check = domain::check_parameters(policy, parameters);
  if (!check) return fmt::format("no policy {}; there are {}", quoted(policy), fmt::join(domain::policy_names(), ", "));
  if (!check->unknown.empty()) {
    const std::string known = check->known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(check->known, ", "));
    return fmt::format("policy {} has no parameter {}; {}", policy, quoted(check->unknown.front()), known);
  }
  if (check->refused.empty()) return {};
  const std::string& name = check->refused.front();
  return fmt::format("policy {} can't have {} = {}", policy, name, parameters.at(name));
}

Trace read_trace(std::istream& in, const std::string& name, bool policy_given) {
  Trace trace;
  Reader reader(in, name);
  std::string line;
  std::vector<std::string> fields;
  std::optional<std::size_t> step;
  std::size_t found_inf = 0;
  while (reader.next(line)) {
    if (trimmed(line).empty()) continue;
    if (line.front() == '#') {
      if (!policy_given && !step && trace.policy.empty()) read_policy(line, trace, reader);
      continue;
    }
    split(line, fields, reader);
    if (!step) {
      step = column(fields, "step", reader);
      found_inf = column(fields, "found_inf", reader);
      continue;
    }
    if (fields.size() <= std::max(*step, found_inf)) {
      reader.fail(fmt::format("the line has {} fields, too few for step and found_inf", fields.size()));
    }
    if (trace.rows.size() >= Trace::kMaxRows) reader.fail(fmt::format("more than {} steps", Trace::kMaxRows));
    const auto number = parse<std::int64_t>(trimmed(fields[*step]));
    if (!number) reader.fail(fmt::format("step is {}, not a whole number", quoted(fields[*step])));
    const auto found = parse_value(trimmed(fields[found_inf]));
    if (!found || !std::isfinite(*found) || *found < 0) {
      reader.fail(fmt::format("found_inf is {}, not a number of 0 or more", quoted(fields[found_inf])));
    }
    trace.rows.push_back({*number, *found});
  }
  if (!step) {
    throw CallError(fmt::format("{} has no header line with step and found_inf", names::escape(name)), kExitNothing);
  }
  return trace;
}

}  // namespace scalewatch::cli
