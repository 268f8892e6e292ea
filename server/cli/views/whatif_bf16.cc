// What a run's values would have been in bf16's range.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/cli/attempts.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/whatif.h"
#include "server/cli/views/whatif_answer.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

using domain::Bounds;
using domain::Underflow;

constexpr const char* kCaveat =
    "It can't know all: bf16 keeps 8 significant bits where fp16 keeps 11, and what coarser rounding does to the training is "
    "in "
    "no record. Zeros can't be recovered: what fp16 flushed before it was measured counts as zero here too. Of Inf and NaN the "
    "size was not recorded: bf16 holds what is below 3.4e38, not what was NaN for another reason.";

// Sums over attempts.
struct Tensor {
  double numel = 0;
  double zero = 0;
  double non_finite = 0;
  Underflow now;   // in its own format, under the scale it was measured under
  Underflow bf16;  // in bf16, unscaled
  Bounds over;     // of the finite ones, in bf16
};

struct Told {
  TensorNumbers numbers;
  std::vector<Tensor> tensors;
  std::uint64_t attempts = 0;
  std::uint64_t skipped = 0;
  std::uint64_t early = 0;  // attempts with a non-finite loss or activation
  bool all_bf16 = true;     // every record's target
};

// Only -Inf is likely a mask.
bool bad_activation(const v1::TensorRecord& tensor) {
  return tensor.info().role() == v1::ROLE_ACTIVATION && (tensor.record().nan() > 0 || tensor.record().pos_inf() > 0);
}

void add(Told& told, const v1::TensorRecord& tensor) {
  const auto& record = tensor.record();
  const auto spread = spread_of(tensor);
  if (spread.target == DType::kUnspecified) return;
  told.all_bf16 = told.all_bf16 && spread.target == DType::kBf16;
  const auto number = told.numbers.number(tensor.info());
  if (number >= told.tensors.size()) told.tensors.resize(number + 1);
  auto& sum = told.tensors[number];
  sum.numel += static_cast<double>(record.numel());
  sum.zero += static_cast<double>(record.zero());
  sum.non_finite += static_cast<double>(record.nan() + infinities(record));
  sum.now += domain::underflow(spread, spread.target, scale_of(record));
  sum.bf16 += domain::underflow(spread, DType::kBf16, 1);
  const auto over = domain::elements_over(spread, DType::kBf16);
  sum.over.low += over.low;
  sum.over.high += over.high;
}

Told read(Client& client, const std::string& run, const RangeOptions& range, const Screen& screen) {
  Told told;
  bool early = false;
  const auto end_attempt = [&] { told.early += std::exchange(early, false) ? 1 : 0; };
  walk_attempts(client, {run, range, std::nullopt, true, "reading", true}, screen,
                [&](const v1::GetAttemptResponse& page, bool first) {
                  if (first) {
                    end_attempt();
                    ++told.attempts;
                    const auto outcome = outcome_word(page.attempt());
                    told.skipped += outcome == "skipped" || outcome == "partial" ? 1 : 0;
                    early = page.attempt().has_loss() && !std::isfinite(page.attempt().loss());
                  }
                  for (const auto& tensor : page.tensors()) {
                    early = early || bad_activation(tensor);
                    add(told, tensor);
                  }
                  return true;
                });
  end_attempt();
  return told;
}

// What is lost now comes first.
std::vector<std::size_t> by_loss(const Told& told) {
  std::vector<std::size_t> order(told.tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto& ta = told.tensors[a];
    const auto& tb = told.tensors[b];
    if ((ta.non_finite > 0) != (tb.non_finite > 0)) return ta.non_finite > 0;
    return domain::worst_share(ta.now) > domain::worst_share(tb.now);
  });
  return order;
}

void print(const Told& told, std::uint32_t limit, const Screen& screen) {
  if (told.all_bf16) screen.say("The run computes in bf16 already: nothing would change.", text::Style::kBold);
  screen.say(fmt::format("{}, {} skipped: bf16 needs no loss scaler and would have skipped none.",
                         text::plural(told.attempts, "attempt"), text::exact(told.skipped)),
             text::Style::kPlain);
  if (told.early > 0) {
    screen.say(
        fmt::format("At {} the loss or an activation was non-finite: bf16 mends that where a value was too large, and not "
                    "where it was NaN from the start.",
                    text::plural(told.early, "attempt")),
        text::Style::kWarning);
  }
  using text::Align;
  text::Table table({{"TENSOR", Align::kLeft, true},
                     {"ROLE"},
                     {"NAN+INF", Align::kRight},
                     {"ZERO", Align::kRight},
                     {"SUBNORM", Align::kRight},
                     {"IN BF16", Align::kRight},
                     {"FLUSHED", Align::kRight},
                     {"IN BF16", Align::kRight},
                     {"OVER", Align::kRight}});
  const auto order = by_loss(told);
  for (std::size_t i = 0; i < order.size() && i < limit; ++i) {
    const auto& tensor = told.tensors[order[i]];
    const auto& info = told.numbers.infos()[order[i]];
    table.add({{Screen::name(info.name())},
               {std::string(role_short(info.role()))},
               bad_count_cell(static_cast<std::uint64_t>(tensor.non_finite)),
               {text::percent(tensor.zero, tensor.numel)},
               {share_text(tensor.now.subnormal, tensor.now.elements, screen.ascii)},
               {share_text(tensor.bf16.subnormal, tensor.bf16.elements, screen.ascii)},
               {share_text(tensor.now.flushed, tensor.now.elements, screen.ascii)},
               {share_text(tensor.bf16.flushed, tensor.bf16.elements, screen.ascii)},
               {share_text(tensor.over, tensor.bf16.elements, screen.ascii)}});
  }
  screen.out << '\n';
  table.print(screen.out, screen.width, screen.color, screen.ascii);
  if (order.size() > limit)
    screen.out << text::plural(order.size() - limit, "more tensor") << ": --limit shows more, --json all.\n";
  screen.out << '\n';
  screen.say(
      "SUBNORM and FLUSHED are shares of the non-zero elements in the run's format, under its loss scale; OVER is the share "
      "that even bf16 can't hold.",
      text::Style::kDim);
  screen.say(kCaveat, text::Style::kDim);
}

nlohmann::ordered_json to_json(const Told& told) {
  using Json = nlohmann::ordered_json;
  Json tensors = Json::array();
  for (std::size_t i = 0; i < told.tensors.size(); ++i) {
    const auto& tensor = told.tensors[i];
    const auto& info = told.numbers.infos()[i];
    const auto shares = [](const Underflow& u) {
      return Json{{"subnormal", share_json(u.subnormal, u.elements)}, {"flushed", share_json(u.flushed, u.elements)}};
    };
    auto bf16 = shares(tensor.bf16);
    bf16["over"] = share_json(tensor.over, tensor.bf16.elements);
    tensors.push_back({{"name", info.name()},
                       {"role", role_word(static_cast<Role>(info.role()))},
                       {"elements", tensor.now.elements},
                       {"zero", tensor.numel > 0 ? Json(tensor.zero / tensor.numel) : Json(nullptr)},
                       {"non_finite", tensor.non_finite},
                       {"went", shares(tensor.now)},
                       {"bf16", std::move(bf16)}});
  }
  return {{"attempts", told.attempts},
          {"skipped", told.skipped},
          {"loss_or_activation_non_finite", told.early},
          {"already_bf16", told.all_bf16},
          {"tensors", std::move(tensors)}};
}

}  // namespace

void show_whatif_bf16(Client& client, const std::string& run, const RangeOptions& range, std::uint32_t limit,
                      const Screen& screen) {
  const auto told = read(client, run, range, screen);
  if (told.tensors.empty()) {
    throw CallError("no tensor is stored in these attempts: there is nothing to hold against bf16", kExitNothing);
  }
  if (!screen.json) return print(told, limit, screen);
  screen.out << to_json(told).dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace scalewatch::cli
