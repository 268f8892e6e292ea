// One attempt as its values flowed: forward, backward, and what the step left behind.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/cli/attempts.h"
#include "server/cli/convert.h"
#include "server/cli/finding_text.h"
#include "server/cli/json.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"
#include "server/cli/views/record_text.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"
#include "server/domain/attempt.h"

namespace scalewatch::cli {

namespace {

enum class Pass : std::uint8_t { kForward, kBackward, kStep };

Pass pass_of(const v1::TensorInfo& info) {
  switch (info.role()) {
    case v1::ROLE_ACTIVATION:
      return Pass::kForward;
    case v1::ROLE_ACTIVATION_GRADIENT:
    case v1::ROLE_GRADIENT:
      return Pass::kBackward;
    default:
      return Pass::kStep;
  }
}

// As the rules have it, but for state: that is measured after the step, so it stands behind. What was poisoned before shows in
// the attempt before.
bool comes_before(const v1::TensorInfo& a, const v1::TensorInfo& b) {
  if (pass_of(a) != pass_of(b)) return pass_of(a) < pass_of(b);
  const auto role = [](const v1::TensorInfo& info) { return static_cast<Role>(info.role()); };
  return domain::flows_before(role(a), a.forward_index(), role(b), b.forward_index());
}

// Tensors that a finding of the segment blames, by name and role.
using Blamed = std::set<std::pair<std::string, int>>;

// An activation that holds -Inf and nothing else is likely a mask, unless the rules, which saw more of it, blame it.
bool maybe_mask(const v1::TensorRecord& tensor, const Blamed& blamed) {
  const auto& record = tensor.record();
  return tensor.info().role() == v1::ROLE_ACTIVATION && record.neg_inf() > 0 && record.nan() == 0 && record.pos_inf() == 0 &&
         !blamed.contains({tensor.info().name(), static_cast<int>(tensor.info().role())});
}
bool bad(const v1::TensorRecord& tensor) {
  return tensor.record().nan() > 0 || infinities(tensor.record()) > 0;
}

bool is_state(const v1::TensorInfo& info) {
  return pass_of(info) == Pass::kStep;
}

void print_summary(const v1::AttemptSummary& attempt, const Screen& screen) {
  const auto outcome = outcome_word(attempt);
  const bool odd = outcome == "skipped" || outcome == "partial";
  std::string line = fmt::format("attempt {} of segment {}, step {}, ", attempt.attempt(), attempt.segment(), attempt.step());
  screen.out << screen.paint(line, text::Style::kBold)
             << screen.paint(outcome == "-" ? "outcome unknown" : outcome, odd ? text::Style::kWarning : text::Style::kPlain)
             << '\n';
  std::string facts;
  const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : ", ") + fact; };
  for (const auto& scaler : attempt.scalers()) {
    const std::string which = attempt.scalers_size() > 1 ? fmt::format("scale of scaler {}", scaler.scaler()) : "scale";
    if (!scaler.has_scale_before()) continue;
    const bool moved = scaler.has_scale_after() && scaler.scale_after() != scaler.scale_before();
    add(fmt::format("{} {}{}", which, text::scale(scaler.scale_before()),
                    moved ? ", then " + text::scale(scaler.scale_after()) : ""));
  }
  if (attempt.has_loss()) add("loss " + text::magnitude(attempt.loss()));
  if (attempt.has_grad_norm()) add("norm " + text::magnitude(attempt.grad_norm()));
  if (attempt.has_lr()) add("lr " + text::magnitude(attempt.lr()));
  std::vector<std::uint32_t> ranks(attempt.ranks().begin(), attempt.ranks().end());
  std::sort(ranks.begin(), ranks.end());
  add(fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", ranks_text(ranks)));
  if (attempt.time_ms() != 0)
    add(screen.time == TimeStyle::kRelative ? text::utc(attempt.time_ms()) : screen.when(attempt.time_ms()));
  screen.say(facts);
  if (attempt.missing().empty()) return;
  const std::vector<std::uint32_t> missing(attempt.missing().begin(), attempt.missing().end());
  std::vector<std::uint32_t> late;
  std::set_intersection(missing.begin(), missing.end(), ranks.begin(), ranks.end(), std::back_inserter(late));
  const std::string later = late.empty() ? "" : fmt::format(" ({} reported it later)", ranks_text(late));
  screen.say(fmt::format("closed without {} {}{}", missing.size() == 1 ? "rank" : "ranks", ranks_text(missing), later),
             text::Style::kWarning);
}

std::string told(const v1::TensorRecord& tensor) {
  std::vector<std::uint32_t> ranks(tensor.ranks().begin(), tensor.ranks().end());
  std::sort(ranks.begin(), ranks.end());
  std::string out =
      fmt::format("{} ({})", Screen::name(tensor.info().name()), role_word(static_cast<Role>(tensor.info().role())));
  if (tensor.record().nan() > 0) out += fmt::format(", {} NaN", text::exact(tensor.record().nan()));
  if (infinities(tensor.record()) > 0) out += fmt::format(", {} Inf", text::exact(infinities(tensor.record())));
  if (!ranks.empty()) out += fmt::format(", {} {}", ranks.size() == 1 ? "rank" : "ranks", ranks_text(ranks));
  if (tensor.record().has_first_bad_micro()) {
    out += fmt::format(", micro-batch {} (counted from 0)", tensor.record().first_bad_micro());
  }
  return out;
}

// What the rules found in the attempt's segment, so that the two never seem to tell different stories.
std::vector<v1::Finding> blaming(Client& client, const v1::AttemptSummary& attempt, const std::string& run) {
  v1::GetRunRequest request;
  request.set_run(run);
  std::vector<v1::Finding> out;
  const auto answer = client.get_run(request);
  for (const auto& finding : answer.findings()) {
    if (finding.segment() == attempt.segment() && finding.has_blame()) out.push_back(finding);
  }
  return out;
}

void print_blamed(const std::vector<v1::Finding>& findings, const v1::AttemptSummary& attempt, const Screen& screen) {
  for (const auto& finding : findings) {
    if (finding.blame().attempt() != attempt.attempt()) continue;
    screen.say(fmt::format("{} blames {}", Screen::name(finding.rule()), blame_text(*from_proto(finding).blame)),
               text::Style::kPlain);
  }
}

// The first state tensor that was non-finite at the attempt before: then nothing here is where it began.
void print_poisoned(Client& client, v1::GetAttemptRequest request, const v1::AttemptSummary& attempt, const Screen& screen) {
  if (attempt.attempt() < 2) return;
  request.set_segment(attempt.segment());
  request.set_attempt(attempt.attempt() - 1);
  try {
    const auto before = read_attempt(client, request);
    for (const auto& tensor : before.tensors()) {
      if (!is_state(tensor.info()) || !bad(tensor)) continue;
      screen.say(fmt::format("Poisoned before: {} was non-finite at attempt {} already.", told(tensor), request.attempt()),
                 text::Style::kCritical);
      return;
    }
  } catch (const CallError& error) {
    if (!error.not_found()) throw;  // the attempt before was not stored: nothing is known of it
  }
}

void print_tensors(const std::vector<const v1::TensorRecord*>& tensors, const v1::TensorRecord* first, Pass pass,
                   const Blamed& blamed, const AttemptOptions& options, const Screen& screen) {
  using text::Align;
  text::Table table({{""},
                     {"TENSOR", Align::kLeft, true},
                     {"ROLE"},
                     {"ABSMAX", Align::kRight},
                     {"HEADROOM", Align::kRight},
                     {"SUBNORM", Align::kRight},
                     {"NAN", Align::kRight},
                     {"INF", Align::kRight},
                     {"RANKS"}});
  std::size_t left_out = 0;
  for (const auto* tensor : tensors) {
    if (pass_of(tensor->info()) != pass) continue;
    if (options.bad && !bad(*tensor)) {
      ++left_out;
      continue;
    }
    std::vector<std::uint32_t> ranks(tensor->ranks().begin(), tensor->ranks().end());
    std::sort(ranks.begin(), ranks.end());
    const auto style = tensor == first ? text::Style::kCritical : text::Style::kPlain;
    table.add({{tensor == first               ? ">"
                : maybe_mask(*tensor, blamed) ? "m"
                                              : "",
                style},
               {Screen::name(tensor->info().name()), style},
               {std::string(role_short(tensor->info().role()))},
               absmax_cell(tensor->record()),
               headroom_cell(tensor->record()),
               underflow_cell(tensor->record()),
               bad_count_cell(tensor->record().nan()),
               bad_count_cell(infinities(tensor->record())),
               {text::truncate_middle(ranks_text(ranks), 8, screen.ascii)}});
  }
  if (table.empty() && left_out == 0) return;
  constexpr std::array<std::string_view, 3> kTitles{"forward", "backward", "after the step"};
  screen.out << '\n' << screen.paint(kTitles[static_cast<std::size_t>(pass)], text::Style::kBold);
  if (left_out > 0) screen.out << fmt::format(" ({} finite)", text::exact(left_out));
  screen.out << '\n';
  if (!table.empty()) table.print(screen.out, screen.width, screen.color, screen.ascii);
}

}  // namespace

void show_attempt(Client& client, const AttemptOptions& options, const Screen& screen) {
  v1::GetAttemptRequest request;
  request.set_run(options.run);
  request.set_segment(options.segment);
  request.set_attempt(options.attempt);
  if (options.rank) request.set_rank(*options.rank);
  const auto response = read_attempt(client, request);
  if (screen.json) return print_json(response, screen.out);
  print_summary(response.attempt(), screen);
  std::vector<const v1::TensorRecord*> flow;
  for (const auto& tensor : response.tensors()) flow.push_back(&tensor);
  std::stable_sort(flow.begin(), flow.end(), [](const auto* a, const auto* b) { return comes_before(a->info(), b->info()); });
  const auto findings = blaming(client, response.attempt(), options.run);
  Blamed blamed;
  for (const auto& finding : findings) blamed.emplace(finding.blame().tensor(), static_cast<int>(finding.blame().role()));
  const auto found = std::find_if(flow.begin(), flow.end(), [&](const auto* t) { return bad(*t) && !maybe_mask(*t, blamed); });
  const auto* first = found == flow.end() ? nullptr : *found;
  print_poisoned(client, request, response.attempt(), screen);
  if (first != nullptr) {
    screen.say("First non-finite in the order that values flowed: " + told(*first), text::Style::kCritical);
  } else if (!flow.empty()) {
    screen.out << "All that was measured is finite.\n";
  }
  print_blamed(findings, response.attempt(), screen);
  if (flow.empty()) {
    screen.out << "No tensor was measured at this attempt (sampling, or none was sent).\n";
    return;
  }
  bool scaled = false;
  for (const auto* tensor : flow) scaled = scaled || scale_of(tensor->record()) != 1;
  for (const auto pass : {Pass::kForward, Pass::kBackward, Pass::kStep})
    print_tensors(flow, first, pass, blamed, options, screen);
  screen.out << '\n';
  print_record_notes(scaled, screen);
  if (std::any_of(flow.begin(), flow.end(), [&](const auto* t) { return maybe_mask(*t, blamed); })) {
    screen.out << "m = only -Inf, which masks hold by design.\n";
  }
}

}  // namespace scalewatch::cli
