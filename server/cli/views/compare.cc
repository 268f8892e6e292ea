// Two runs side by side: where they part.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cli/attempts.h"
#include "server/cli/progress.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/json_number.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr std::uint64_t kMaxAttempts = 2000;
constexpr std::size_t kMaxTensors = 50'000;

// One tensor in both runs.
struct Pair {
  v1::TensorInfo info;
  std::uint64_t attempts = 0;  // at which both have it
  std::uint64_t parted = 0;    // first attempt at which they differ; 0 = none
  double worst = 0;            // octaves between the norms, B over A; the farthest from 0
  std::uint64_t worst_at = 0;
  double zeros_a = 0;  // shares of zeros, the largest seen
  double zeros_b = 0;
  std::uint64_t bad_a = 0;  // NaN and Inf, over all attempts
  std::uint64_t bad_b = 0;
};

// What one of the runs did as a whole.
struct Side {
  std::string name;
  v1::RunSummary run;
  std::uint64_t skipped = 0;
  std::optional<double> loss;  // newest
  std::optional<double> norm;
};

struct Comparison {
  Side a;
  Side b;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t attempts = 0;       // that both have
  std::uint64_t outcome_parts = 0;  // first attempt that only one of them skipped; 0 = none
  std::uint64_t loss_parts = 0;     // first attempt at which one loss is finite and the other not, or they differ by a tenth
  std::vector<Pair> pairs;
};

std::uint64_t non_finite(const v1::Record& record) {
  return record.nan() + infinities(record);
}

double zero_share(const v1::Record& record) {
  return record.numel() == 0 ? 0 : static_cast<double>(record.zero()) / static_cast<double>(record.numel());
}

// Octaves that the norm of b lies over that of a; absent where one of them has no norm to speak of.
std::optional<double> octaves(const v1::Record& a, const v1::Record& b) {
  const double norm_a = norm(a);
  const double norm_b = norm(b);
  if (!a.has_absmax() || !b.has_absmax() || !(norm_a > 0) || !(norm_b > 0)) return std::nullopt;
  return std::log2(norm_b / norm_a);
}

void add(Pair& pair, std::uint64_t attempt, const v1::Record& a, const v1::Record& b, double limit) {
  ++pair.attempts;
  pair.bad_a += non_finite(a);
  pair.bad_b += non_finite(b);
  pair.zeros_a = std::max(pair.zeros_a, zero_share(a));
  pair.zeros_b = std::max(pair.zeros_b, zero_share(b));
  const auto apart = octaves(a, b);
  if (apart && std::abs(*apart) > std::abs(pair.worst)) {
    pair.worst = *apart;
    pair.worst_at = attempt;
  }
  const bool one_bad = (non_finite(a) > 0) != (non_finite(b) > 0);
  const bool one_zero = (norm(a) > 0) != (norm(b) > 0);
  if (pair.parted == 0 && (one_bad || one_zero || (apart && std::abs(*apart) > limit))) pair.parted = attempt;
}

bool losses_part(double a, double b) {
  if (std::isfinite(a) != std::isfinite(b)) return true;
  if (!std::isfinite(a)) return false;
  constexpr double kShare = 0.1;
  return std::abs(a - b) > kShare * std::max(std::abs(a), std::abs(b));
}

bool skipped(const v1::AttemptSummary& attempt) {
  const auto outcome = outcome_word(attempt);
  return outcome == "skipped" || outcome == "partial";
}

void take(Side& side, const v1::AttemptSummary& attempt) {
  side.skipped += skipped(attempt) ? 1 : 0;
  if (attempt.has_loss()) side.loss = attempt.loss();
  if (attempt.has_grad_norm()) side.norm = attempt.grad_norm();
}

Side side_of(Client& client, const std::string& name) {
  v1::GetRunRequest request;
  request.set_run(name);
  Side side;
  side.run = client.get_run(request).run();
  side.name = side.run.name();
  return side;
}

std::optional<v1::GetAttemptResponse> attempt_of(Client& client, const Side& side, std::uint64_t attempt, bool or_next) {
  v1::GetAttemptRequest request;
  request.set_run(side.run.run_uid());
  request.set_segment(side.run.segment());
  request.set_attempt(attempt);
  request.set_or_next(or_next);
  try {
    return read_attempt(client, request);
  } catch (const CallError& error) {
    if (!error.not_found()) throw;
    return std::nullopt;
  }
}

using Key = std::pair<std::string, int>;
Key key_of(const v1::TensorInfo& info) {
  return {info.name(), static_cast<int>(info.role())};
}

void compare_attempt(Comparison& all, std::map<Key, std::size_t>& index, const v1::GetAttemptResponse& a,
                     const v1::GetAttemptResponse& b, double limit) {
  const auto attempt = a.attempt().attempt();
  ++all.attempts;
  take(all.a, a.attempt());
  take(all.b, b.attempt());
  if (all.outcome_parts == 0 && skipped(a.attempt()) != skipped(b.attempt())) all.outcome_parts = attempt;
  if (all.loss_parts == 0 && a.attempt().has_loss() && b.attempt().has_loss() &&
      losses_part(a.attempt().loss(), b.attempt().loss())) {
    all.loss_parts = attempt;
  }
  std::map<Key, const v1::Record*> of_b;
  for (const auto& tensor : b.tensors()) of_b[key_of(tensor.info())] = &tensor.record();
  for (const auto& tensor : a.tensors()) {
    const auto key = key_of(tensor.info());
    const auto other = of_b.find(key);
    if (other == of_b.end()) continue;
    auto found = index.find(key);
    if (found == index.end()) {
      if (all.pairs.size() >= kMaxTensors) continue;
      found = index.emplace(key, all.pairs.size()).first;
      all.pairs.push_back({});
      all.pairs.back().info = tensor.info();
    }
    add(all.pairs[found->second], attempt, tensor.record(), *other->second, limit);
  }
}

Comparison read(Client& client, const CompareOptions& options, const Screen& screen) {
  Comparison all;
  all.a = side_of(client, options.run_a);
  all.b = side_of(client, options.run_b);
  const auto newest_a = newest_attempt(client, all.a.run.run_uid(), all.a.run.segment());
  const auto newest_b = newest_attempt(client, all.b.run.run_uid(), all.b.run.segment());
  if (!newest_a || !newest_b)
    throw CallError("one of the runs has no attempt stored: there is nothing to compare", kExitNothing);
  all.last = std::min(newest_a->attempt(), newest_b->attempt());
  if (options.last != 0) all.last = std::min(all.last, options.last);
  all.first = options.first != 0 ? options.first : all.last >= kMaxAttempts ? all.last - kMaxAttempts + 1 : 1;
  std::map<Key, std::size_t> index;
  Progress progress("comparing", "attempt", all.last >= all.first ? all.last - all.first + 1 : 0, screen);
  for (std::uint64_t next = all.first; next <= all.last;) {
    progress.at(next - all.first);
    const auto a = attempt_of(client, all.a, next, true);
    if (!a || a->attempt().attempt() < next || a->attempt().attempt() > all.last) break;
    next = a->attempt().attempt() + 1;
    const auto b = attempt_of(client, all.b, a->attempt().attempt(), false);
    if (b) compare_attempt(all, index, *a, *b, options.octaves);
  }
  // Where they part first; among those that part together, as values flow forward.
  std::stable_sort(all.pairs.begin(), all.pairs.end(), [](const Pair& x, const Pair& y) {
    if ((x.parted != 0) != (y.parted != 0)) return x.parted != 0;
    if (x.parted != y.parted) return x.parted < y.parted;
    if (x.parted == 0) return std::abs(x.worst) > std::abs(y.worst);
    return x.info.forward_index() < y.info.forward_index();
  });
  return all;
}

std::string number(std::optional<double> value) {
  return value ? text::magnitude(*value) : "-";
}

void print_sides(const Comparison& all, const Screen& screen) {
  using text::Align;
  text::Table table({{""},
                     {"RUN", Align::kLeft, true, true},
                     {"COMPUTE"},
                     {"SKIPPED", Align::kRight},
                     {"LOSS", Align::kRight},
                     {"NORM", Align::kRight}});
  for (const auto* side : {&all.a, &all.b}) {
    table.add({{side == &all.a ? "A" : "B"},
               {Screen::name(side->name)},
               {std::string(dtype_word(side->run.compute_dtype()))},
               {text::exact(side->skipped)},
               {number(side->loss)},
               {number(side->norm)}});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
}

void print_text(const Comparison& all, const CompareOptions& options, const Screen& screen) {
  print_sides(all, screen);
  screen.out << fmt::format("{} that both have, from {} to {}\n", text::plural(all.attempts, "attempt"), all.first, all.last);
  screen.out << (all.loss_parts == 0 ? "The losses stay within a tenth of each other, or are not known.\n"
                                     : fmt::format("The losses part at attempt {} (by more than a tenth).\n", all.loss_parts));
  if (all.outcome_parts != 0)
    screen.out << fmt::format("Attempt {} is the first that only one of them skipped.\n", all.outcome_parts);
  if (all.pairs.empty()) {
    screen.out << "No tensor of the same name and role was recorded in both at the same attempt.\n";
    return;
  }
  const auto parted =
      static_cast<std::size_t>(std::count_if(all.pairs.begin(), all.pairs.end(), [](const Pair& p) { return p.parted != 0; }));
  const auto said = fmt::format("{} of {} part: their norms differ by more than {} {}, or only one is zero or non-finite.",
                                parted, text::plural(all.pairs.size(), "tensor"), text::magnitude(options.octaves),
                                options.octaves == 1 ? "octave" : "octaves");
  screen.say(said);
  screen.out << '\n';
  using text::Align;
  text::Table table({{"TENSOR", Align::kLeft, true},
                     {"ROLE"},
                     {"PARTS", Align::kRight},
                     {"OCTAVES", Align::kRight},
                     {"AT", Align::kRight},
                     {"ZEROS A", Align::kRight},
                     {"B", Align::kRight},
                     {"BAD A", Align::kRight},
                     {"B", Align::kRight}});
  const auto shown = std::min<std::size_t>(options.limit, all.pairs.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& pair = all.pairs[i];
    table.add({{Screen::name(pair.info.name())},
               {std::string(role_short(pair.info.role()))},
               {pair.parted == 0 ? "-" : fmt::format("{}", pair.parted),
                pair.parted == 0 ? text::Style::kPlain : text::Style::kWarning},
               {pair.worst_at == 0 ? "-" : fmt::format("{:+.1f}", pair.worst)},
               {pair.worst_at == 0 ? "-" : fmt::format("{}", pair.worst_at)},
               {text::percent(pair.zeros_a, 1)},
               {text::percent(pair.zeros_b, 1)},
               bad_count_cell(pair.bad_a),
               bad_count_cell(pair.bad_b)});
  }
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (shown < all.pairs.size())
    screen.out << text::plural(all.pairs.size() - shown, "more tensor") << ": --limit shows more.\n";
  screen.say(
      "PARTS: first attempt that differs. OCTAVES: norm of B over A, unscaled, where it is farthest (AT). "
      "ZEROS: largest share of zero elements. BAD: NaN and Inf elements.",
      text::Style::kDim);
}

nlohmann::ordered_json side_json(const Side& side) {
  return {{"run", side.name},        {"run_uid", side.run.run_uid()},  {"segment", side.run.segment()},
          {"skipped", side.skipped}, {"loss", json_number(side.loss)}, {"grad_norm", json_number(side.norm)}};
}

void print_json_comparison(const Comparison& all, const Screen& screen) {
  using Json = nlohmann::ordered_json;
  const auto attempt = [](std::uint64_t at) { return at == 0 ? Json(nullptr) : Json(at); };
  Json tensors = Json::array();
  for (const auto& pair : all.pairs) {
    tensors.push_back({{"name", pair.info.name()},
                       {"role", role_word(static_cast<Role>(pair.info.role()))},
                       {"attempts", pair.attempts},
                       {"parts_at", attempt(pair.parted)},
                       {"octaves", json_number(pair.worst)},
                       {"octaves_at", attempt(pair.worst_at)},
                       {"zeros_a", pair.zeros_a},
                       {"zeros_b", pair.zeros_b},
                       {"non_finite_a", pair.bad_a},
                       {"non_finite_b", pair.bad_b}});
  }
  const Json out{{"a", side_json(all.a)},
                 {"b", side_json(all.b)},
                 {"first", all.first},
                 {"last", all.last},
                 {"attempts", all.attempts},
                 {"loss_parts_at", attempt(all.loss_parts)},
                 {"outcome_parts_at", attempt(all.outcome_parts)},
                 {"tensors", std::move(tensors)}};
  screen.out << out.dump(2, ' ', true, Json::error_handler_t::replace) << '\n';
}

}  // namespace

void compare_runs(Client& client, const CompareOptions& options, const Screen& screen) {
  const auto all = read(client, options, screen);
  if (screen.json) return print_json_comparison(all, screen);
  print_text(all, options, screen);
}

}  // namespace scalewatch::cli
