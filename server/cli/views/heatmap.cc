// Tensors × attempts in a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/cli/attempts.h"
#include "server/cli/text/heatmap.h"
#include "server/cli/text/units.h"
#include "server/cli/views/json_number.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/tensor_stat.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr std::uint64_t kDefaultAttempts = 500;
constexpr std::uint64_t kMaxAttempts = 100'000;
constexpr std::size_t kMaxTensors = 20'000;  // rows that are gathered; what lies beyond is counted
constexpr int kMaxName = 28;
constexpr int kRole = 8;
constexpr int kMaxColumns = 160;

struct Row {
  v1::TensorInfo info;
  std::vector<text::HeatCell> cells;
  std::uint64_t non_finite = 0;  // elements, over all attempts
  double worst = 0;              // least headroom, octaves; only to choose rows by
  bool headroom = false;
};

struct Map {
  RangeOptions range;
  std::size_t columns = 0;
  std::vector<Row> rows;  // in forward order
  std::uint64_t left_out = 0;
  std::string skips;  // '^' where an attempt was skipped or partial
  std::uint64_t attempts = 0;

  [[nodiscard]] std::size_t column_of(std::uint64_t attempt) const {
    const std::uint64_t span = range.last - range.first + 1;
    return static_cast<std::size_t>((attempt - range.first) * columns / span);
  }
};

void add(Map& map, std::map<std::pair<std::string, int>, std::size_t>& index, const v1::TensorRecord& tensor,
         std::size_t column, const TensorStat& stat) {
  const auto key = std::make_pair(tensor.info().name(), static_cast<int>(tensor.info().role()));
  auto found = index.find(key);
  if (found == index.end()) {
    if (map.rows.size() >= kMaxTensors) {
      ++map.left_out;
      return;
    }
    found = index.emplace(key, map.rows.size()).first;
    map.rows.push_back({tensor.info(), std::vector<text::HeatCell>(map.columns), 0, 0, false});
  }
  auto& row = map.rows[found->second];
  const auto& record = tensor.record();
  auto sample = stat.sample(record);
  if (infinities(record) > 0) sample.mark = 'I';
  if (record.nan() > 0) sample.mark = 'N';
  row.cells[column].add(sample, stat.keep);
  row.non_finite += record.nan() + infinities(record);
  if (record.has_headroom()) {
    row.worst = row.headroom ? std::min(row.worst, record.headroom()) : record.headroom();
    row.headroom = true;
  }
}

Map read(Client& client, const HeatmapOptions& options, const RangeOptions& range, std::size_t columns, const Screen& screen) {
  Map map;
  map.range = range;
  map.columns = std::min<std::uint64_t>(columns, range.last - range.first + 1);
  map.skips.assign(map.columns, ' ');
  std::map<std::pair<std::string, int>, std::size_t> index;
  const auto& stat = tensor_stat(options.stat);
  const auto role = parse_role(options.role);
  AttemptWalk walk{options.run, range, options.rank, true, "reading"};
  map.attempts = walk_attempts(client, walk, screen, [&](const v1::GetAttemptResponse& page, bool first) {
    const auto column = map.column_of(page.attempt().attempt());
    const auto outcome = outcome_word(page.attempt());
    if (first && (outcome == "skipped" || outcome == "partial")) map.skips[column] = '^';
    for (const auto& tensor : page.tensors()) {
      if (role != v1::ROLE_UNSPECIFIED && tensor.info().role() != role) continue;
      if (tensor.info().name().find(options.name) == std::string::npos) continue;
      add(map, index, tensor, column, stat);
    }
    return true;
  });
  std::stable_sort(map.rows.begin(), map.rows.end(), [](const Row& a, const Row& b) {
    return std::make_pair(a.info.forward_index(), a.info.role()) < std::make_pair(b.info.forward_index(), b.info.role());
  });
  return map;
}

// Keeps the `limit` rows that say most, in forward order: those with NaN and Inf first, then those nearest to the edge.
void keep_worst(Map& map, std::size_t limit) {
  if (map.rows.size() <= limit) return;
  std::vector<std::size_t> order(map.rows.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto& ra = map.rows[a];
    const auto& rb = map.rows[b];
    if ((ra.non_finite > 0) != (rb.non_finite > 0)) return ra.non_finite > 0;
    if (ra.headroom != rb.headroom) return ra.headroom;
    return ra.worst < rb.worst;
  });
  order.resize(limit);
  std::sort(order.begin(), order.end());
  std::vector<Row> kept;
  kept.reserve(limit);
  for (const auto i : order) kept.push_back(std::move(map.rows[i]));
  map.rows = std::move(kept);
}

std::string axis_value(double value, const TensorStat& stat) {
  return stat.log2 ? fmt::format("2^{:.0f}", value) : text::magnitude(value);
}

nlohmann::ordered_json to_json(const Map& map, const HeatmapOptions& options) {
  auto out = nlohmann::ordered_json{{"segment", map.range.segment},
                                    {"first", map.range.first},
                                    {"last", map.range.last},
                                    {"columns", map.columns},
                                    {"stat", options.stat},
                                    {"log2", tensor_stat(options.stat).log2},
                                    {"skips", nlohmann::ordered_json::array()},
                                    {"tensors", nlohmann::ordered_json::array()}};
  for (const char c : map.skips) out["skips"].push_back(c == '^');
  for (const auto& row : map.rows) {
    auto values = nlohmann::ordered_json::array();
    auto marks = nlohmann::ordered_json::array();
    for (const auto& cell : row.cells) {
      values.push_back(json_number(cell.value));
      marks.push_back(cell.mark == 'N' ? "nan" : cell.mark == 'I' ? "inf" : cell.mark == '0' ? "zero" : "");
    }
    out["tensors"].push_back({{"name", row.info.name()},
                              {"role", role_word(static_cast<Role>(row.info.role()))},
                              {"non_finite", row.non_finite},
                              {"values", std::move(values)},
                              {"marks", std::move(marks)}});
  }
  return out;
}

// The names as they are shown, each in its own way: what would look like another gets its row's number.
std::vector<std::string> shown_names(const Map& map, int width, bool ascii) {
  std::map<std::string, std::set<std::string>> behind;
  for (const auto& row : map.rows) {
    const auto name = Screen::name(row.info.name());
    behind[text::truncate_middle(name, width, ascii)].insert(name);
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const auto name = Screen::name(map.rows[i].info.name());
    auto shown = text::truncate_middle(name, width, ascii);
    if (behind.at(shown).size() > 1) {
      const auto number = fmt::format("{}:", i + 1);
      shown = number + text::truncate_middle(name, width - static_cast<int>(number.size()), ascii);
    }
    out.push_back(std::move(shown));
  }
  return out;
}

void print_map(const Map& map, const HeatmapOptions& options, int name_width, const Screen& screen) {
  const auto& stat = tensor_stat(options.stat);
  std::vector<std::vector<text::HeatCell>> cells;
  cells.reserve(map.rows.size());
  for (const auto& row : map.rows) cells.push_back(row.cells);
  const auto range = text::heat_range(cells);
  const std::string indent(static_cast<std::size_t>(name_width + kRole + 2), ' ');
  std::string legend = std::string(stat.label);
  if (!range.empty) {
    legend += fmt::format(": {} {} {}", axis_value(range.low, stat), text::heat_legend(screen.color, screen.ascii),
                          axis_value(range.high, stat));
  }
  screen.out << legend << '\n';
  const auto axis = fmt::format("attempts {} of segment {}, {} a column; N = NaN, I = Inf, 0 = all zero, ^ = skipped",
                                attempts_text(map.range.first, map.range.last), map.range.segment,
                                text::plural((map.range.last - map.range.first + map.columns) / map.columns, "attempt"));
  screen.say(axis);
  auto skips = map.skips;
  skips.erase(skips.find_last_not_of(' ') + 1);
  if (!skips.empty()) {
    screen.out << text::pad("skips", static_cast<int>(indent.size())) << screen.paint(skips, text::Style::kWarning) << '\n';
  }
  const auto names = shown_names(map, name_width, screen.ascii);
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const auto& row = map.rows[i];
    const auto style = row.non_finite > 0 ? text::Style::kCritical : text::Style::kPlain;
    auto line = screen.paint(text::pad(names[i], name_width), style) + ' ' + text::pad(role_short(row.info.role()), kRole) +
                ' ' + text::heat_row(row.cells, range, screen.color, screen.ascii);
    line.erase(line.find_last_not_of(' ') + 1);
    screen.out << line << '\n';
  }
  const auto first = fmt::format("{}", map.range.first);
  const auto last = fmt::format("{}", map.range.last);
  const int gap = static_cast<int>(map.columns) - static_cast<int>(first.size() + last.size());
  screen.out << indent << first << (map.columns > 1 ? std::string(static_cast<std::size_t>(std::max(1, gap)), ' ') + last : "")
             << '\n';
  // Names that were cut and numbered, whole.
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const auto number = fmt::format("{}:", i + 1);
    if (!names[i].starts_with(number)) continue;
    for (const auto& piece : text::pieces(number + " " + Screen::name(map.rows[i].info.name()), screen.width)) {
      screen.out << piece << '\n';
    }
  }
}

}  // namespace

void show_heatmap(Client& client, const HeatmapOptions& options, const Screen& screen) {
  auto range = closed_range(client, options.run, options.range, kDefaultAttempts);
  if (!range) {
    screen.out << (screen.json ? "{}\n" : "No attempt is stored in this range.\n");
    return;
  }
  if (range->last - range->first >= kMaxAttempts) {
    throw CallError(fmt::format("that are {} attempts: at most {} are drawn at once; give --first and --last",
                                text::exact(range->last - range->first + 1), text::exact(kMaxAttempts)),
                    kExitUsage);
  }
  const int width = screen.width > 0 ? std::max(40, screen.width) : 200;
  const int name_width = std::clamp(width / 3, 12, kMaxName);
  const auto columns = static_cast<std::size_t>(std::clamp(width - name_width - kRole - 2, 1, kMaxColumns));
  auto map = read(client, options, *range, columns, screen);
  const auto found = map.rows.size();
  if (!screen.json) keep_worst(map, options.limit);
  if (screen.json) {
    screen.out << to_json(map, options).dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    return;
  }
  if (map.rows.empty()) {
    screen.out << "No tensor has such a value in these attempts: see `scalewatch tensors RUN`.\n";
    return;
  }
  print_map(map, options, name_width, screen);
  if (map.rows.size() < found) {
    const auto said = fmt::format("{} of {} tensors, those with NaN and Inf or least headroom: --limit or --name shows others.",
                                  map.rows.size(), text::exact(found));
    screen.say(said);
  }
  if (map.left_out > 0) {
    screen.out << fmt::format("Only the first {} tensors were gathered: --name and --role choose others.\n",
                              text::exact(kMaxTensors));
  }
}

}  // namespace scalewatch::cli
