#include "server/metrics/page.h"

#include <charconv>
#include <cmath>
#include <stdexcept>

namespace scalewatch::metrics {
namespace {

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    std::array<char, 32> text{};
    constexpr double kExact = 9007199254740992.0;  // 2^53: integers below it are written as such
    const bool whole = std::fabs(value) < kExact && value == std::trunc(value);
    const auto [end, error] = whole ? std::to_chars(text.data(), text.data() + text.size(), static_cast<std::int64_t>(value))
                                    : std::to_chars(text.data(), text.data() + text.size(), value);
    out.append(text.data(), end);
  }
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

void append_label(std::string& out, std::string_view name, std::string_view value, bool& first) {
  out += first ? '{' : ',';
  first = false;
  out += name;
  out += "=\"";
  append_escaped(out, value);
  out += '"';
}

// Writes the labels and returns whether none was.
bool append_labels(std::string& out, const Metric& of, std::initializer_list<std::string_view> values) {
  std::string_view names = of.labels;
  bool first = true;
  for (const std::string_view value : values) {
    const auto comma = names.find(',');
    append_label(out, names.substr(0, comma), value, first);
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
  }
  if (!names.empty() && names != "label_*") throw std::logic_error(std::string("too few labels of ") + of.name);
  return first;
}

}  // namespace

void Page::add(Id id, std::initializer_list<std::string_view> values, double value) {
  add(id, values, {}, value);
}

void Page::add(Id id, std::initializer_list<std::string_view> values, std::span<const std::pair<std::string, std::string>> more,
               double value) {
  const Metric& of = metric(id);
  std::string& out = bodies_.at(static_cast<std::size_t>(id));
  out += of.name;
  bool first = append_labels(out, of, values);
  for (const auto& [name, text] : more) append_label(out, "label_" + name, text, first);
  if (!first) out += '}';
  out += ' ';
  append_number(out, value);
  out += '\n';
}

void Page::add_histogram(Id id, std::initializer_list<std::string_view> values, std::span<const double> bounds,
                         std::span<const std::uint64_t> counts, double sum) {
  const Metric& of = metric(id);
  std::string& out = bodies_.at(static_cast<std::size_t>(id));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    below += counts[i];
    out += of.name;
    out += "_bucket";
    bool first = append_labels(out, of, values);
    std::string bound;
    append_number(bound, i < bounds.size() ? bounds[i] : INFINITY);
    append_label(out, "le", bound, first);
    out += "} ";
    append_number(out, static_cast<double>(below));
    out += '\n';
  }
  const auto total = [&](const char* suffix, double value) {
    out += of.name;
    out += suffix;
    if (!append_labels(out, of, values)) out += '}';
    out += ' ';
    append_number(out, value);
    out += '\n';
  };
  total("_sum", sum);
  total("_count", static_cast<double>(below));
}

std::string Page::take() {
  std::size_t size = 0;
  for (const std::string& body : bodies_) size += body.empty() ? 0 : body.size() + 512;
  std::string out;
  out.reserve(size);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    if (bodies_.at(i).empty()) continue;
    const Metric& of = metric(static_cast<Id>(i));
    out += "# HELP ";
    out += of.name;
    out += ' ';
    out += of.help;
    out += "\n# TYPE ";
    out += of.name;
    out += ' ';
    out += type_name(of.type);
    out += '\n';
    out += bodies_.at(i);
    bodies_.at(i) = {};
  }
  return out;
}

}  // namespace scalewatch::metrics
