#include <fmt/format.h>

#include "server/cli/attempts.h"
#include "server/cli/convert.h"
#include "server/cli/finding_text.h"
#include "server/cli/json.h"
#include "server/cli/text/layout.h"
#include "server/cli/text/units.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

void print_attempt(const v1::AttemptSummary& attempt, const Screen& screen) {
  const auto outcome = outcome_word(attempt);
  const bool odd = outcome == "skipped" || outcome == "partial";
  std::string line = fmt::format("attempt {:<7} step {:<7} ", attempt.attempt(), attempt.step());
  line += screen.paint(text::pad(outcome, 7), odd ? text::Style::kWarning : text::Style::kPlain);
  for (const auto& scaler : attempt.scalers()) {
    if (scaler.has_scale_before()) line += "  scale " + text::scale(scaler.scale_before());
    if (scaler.has_scale_after() && scaler.has_scale_before() && scaler.scale_after() != scaler.scale_before()) {
      line += " to " + text::scale(scaler.scale_after());
    }
  }
  if (attempt.has_loss()) line += "  loss " + text::magnitude(attempt.loss());
  if (attempt.has_grad_norm()) line += "  norm " + text::magnitude(attempt.grad_norm());
  if (attempt.has_lr()) line += "  lr " + text::magnitude(attempt.lr());
  screen.out << line << '\n';
}

}  // namespace

void tail_run(Client& client, const TailOptions& options, const Screen& screen, const std::stop_token& stop) {
  // A call with a deadline first: a stream to a server that isn't there would wait without end.
  v1::GetRunRequest probe;
  probe.set_run(options.run);
  const auto run = client.get_run(probe);
  v1::TailRunRequest request;
  request.set_run(options.run);
  if (!screen.json) {
    const bool over = run.run().status() == v1::RUN_STATUS_FINISHED;
    const auto said = fmt::format("{}, {}, attempt {} so far{}", Screen::name(run.run().name()),
                                  status_word(run.run().status()), run.run().attempts(),
                                  over ? ": nothing more will come; `scalewatch show` tells how it went" : "; Ctrl-C ends");
    screen.say(said);
    screen.out << std::flush;
  }
  if (run.run().status() == v1::RUN_STATUS_FINISHED) return;
  client.tail_run(request, stop, [&](const v1::TailRunResponse& event) {
    if (screen.json) return print_json_line(event, screen.out);
    if (event.has_attempt()) print_attempt(event.attempt(), screen);
    if (event.has_finding()) print_finding(from_proto(event.finding()), Detail::kBrief, screen);
    if (event.dropped() > 0)
      screen.out << fmt::format("({} left out: this reader was too slow)\n", text::plural(event.dropped(), "event"));
    screen.out << std::flush;
  });
  if (!screen.json && !stop.stop_requested()) screen.out << "The run is finished.\n";
}

}  // namespace scalewatch::cli
