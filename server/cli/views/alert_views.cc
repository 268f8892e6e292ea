#include "server/cli/views/alert_views.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <vector>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "server/cli/convert.h"
#include "server/cli/finding_text.h"
#include "server/cli/json.h"
#include "server/cli/text/layout.h"
#include "server/cli/text/units.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

constexpr std::chrono::seconds kDeadline{15};
constexpr std::chrono::seconds kTestDeadline{75};  // sinks may take a minute

template <class Request, class Response>
void call(Client& client, grpc::Status (v1::Alerts::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
          const Request& request, Response& response, std::chrono::seconds deadline = kDeadline) {
  const auto stub = v1::Alerts::NewStub(client.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  const grpc::Status status = ((*stub).*method)(&context, request, &response);
  if (!status.ok()) client.fail(status);
}

void say_indented(const std::string& said, const Screen& screen) {
  const int room = screen.width == 0 ? 0 : std::max(20, screen.width - 2);
  for (const auto& line : text::wrap(said, room)) screen.out << "  " << line << '\n';
}

std::string_view state_word(v1::AlertState state) {
  const auto& words = state_choices();
  const auto index = static_cast<std::size_t>(state) - 1;
  return state > 0 && index < words.size() ? std::string_view(words[index]) : "-";
}

// How long from now, as ages are told: "in 2 h".
std::string ahead(std::int64_t ms) {
  const std::string ago = text::ago(ms);
  return ms < 1000 ? "now" : "in " + ago.substr(0, ago.rfind(" ago"));
}

void print_silence(const v1::Silence& silence, const Screen& screen) {
  const bool over = silence.ends_ms() <= screen.now_ms;
  std::string matchers;
  for (const std::string& matcher : silence.matchers()) matchers += (matchers.empty() ? "" : " ") + Screen::name(matcher);
  screen.out << screen.paint(matchers, text::Style::kBold) << '\n';
  screen.out << fmt::format("  by {}, {}: {}\n", Screen::name(silence.created_by()), screen.when(silence.starts_ms()),
                            Screen::name(silence.reason()));
  if (over) {
    screen.out << "  ended " << screen.when(silence.ends_ms());
    if (!silence.ended_by().empty()) screen.out << " by " << Screen::name(silence.ended_by());
  } else {
    screen.out << "  ends " << ahead(silence.ends_ms() - screen.now_ms) << ", " << text::utc(silence.ends_ms());
  }
  screen.out << "\n  " << screen.paint(Screen::name(silence.id()), text::Style::kDim) << '\n';
}

void print_trail(const v1::Alert& alert, const Screen& screen) {
  screen.out << '\n' << screen.paint("What became of it", text::Style::kBold) << '\n';
  for (const auto& entry : alert.trail()) {
    screen.out << fmt::format("  {}  {:<12}  {}", text::utc(entry.time_ms()), state_word(entry.state()),
                              Screen::name(entry.what()));
    if (!entry.who().empty()) screen.out << ", by " << Screen::name(entry.who());
    screen.out << '\n';
  }
}

// When the sink was told, as far as the alert knows: of each sink's newest page, and of what came after it. 0 = not known.
std::int64_t told_ms(const v1::Alert& alert, const v1::DeliveryStatus& delivery) {
  const std::string& transition = delivery.transition();
  std::int64_t paged_ms = 0;
  bool newest = false;
  for (const auto& page : alert.pages()) {
    if (page.sink() != delivery.sink()) continue;
    paged_ms = page.time_ms();
    newest = page.pages() == 1 || transition.ends_with(':' + std::to_string(page.pages())) ||
             transition == fmt::format("escalated:{}", severity_word(severity_of(page.severity())));
  }
  // What ended or was taken on before its page went was told with it; the run's times may also be those of an old log.
  const auto after = [&](std::int64_t time_ms) { return time_ms >= paged_ms ? time_ms : 0; };
  if (transition == "resolved") return after(alert.resolved_ms());
  if (transition == "acknowledged") return after(alert.acknowledged_ms());
  return newest ? paged_ms : 0;
}

std::string became_of(const v1::DeliveryStatus& delivery) {
  if (delivery.delivered()) return "delivered";
  const std::string error = Screen::name(delivery.last_error());
  if (delivery.tries() == 0) return error.empty() ? "on its way" : "not sent: " + error;
  // A page that was given up says after how many tries itself.
  if (error.starts_with("given up after ")) return "not delivered, " + error;
  return fmt::format("not delivered after {}: {}", delivery.tries() == 1 ? "1 try" : fmt::format("{} tries", delivery.tries()),
                     error);
}

void print_told(const v1::Alert& alert, const Screen& screen) {
  if (alert.pages().empty() && alert.deliveries().empty()) {
    screen.out << "\nNobody was told of it.\n";
    return;
  }
  screen.out << '\n' << screen.paint("Who was told", text::Style::kBold) << '\n';
  struct Line {
    std::int64_t time_ms = 0;  // that it has its place by
    std::string said;
  };
  std::vector<Line> lines;
  const auto add = [&](std::int64_t time_ms, const std::string& sink, const std::string& what, const std::string& became) {
    const std::int64_t place = time_ms == 0 && !lines.empty() ? lines.back().time_ms : time_ms;
    lines.push_back({place, fmt::format("  {:<20}  {}  {}  {}\n", time_ms == 0 ? "" : text::utc(time_ms),
                                        text::pad(Screen::name(sink), 12), text::pad(what, 12), became)});
  };
  // The server gives them oldest first.
  for (const auto& delivery : alert.deliveries()) {
    add(told_ms(alert, delivery), delivery.sink(), Screen::name(delivery.transition()), became_of(delivery));
  }
  // Pages of a group bear the name of its worst alert: of the others only this is known.
  for (const auto& page : alert.pages()) {
    const bool own = std::any_of(alert.deliveries().begin(), alert.deliveries().end(), [&](const v1::DeliveryStatus& delivery) {
      return delivery.sink() == page.sink() && delivery.transition() != "resolved";
    });
    if (!own) add(page.time_ms(), page.sink(), "in a group", "named in the page of another alert, which shows if it arrived");
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.time_ms < b.time_ms; });
  for (const Line& line : lines) screen.out << line.said;
}

}  // namespace

std::optional<std::int64_t> parse_span(std::string_view text) {
  std::int64_t out = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto used = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || value < 0 || value > 1'000'000 || used == text.size()) return std::nullopt;
    const char unit = text[used];
    const std::int64_t scale = unit == 's'   ? 1000
                               : unit == 'm' ? 60'000
                               : unit == 'h' ? 3'600'000
                               : unit == 'd' ? 86'400'000
                                             : 0;
    if (scale == 0) return std::nullopt;
    out += value * scale;
    text.remove_prefix(used + 1);
  }
  return out;
}

void print_quiet(const v1::Alert& alert, const Screen& screen) {
  if (alert.has_silence()) {
    const auto said = fmt::format("silenced by {} until {}: {} ({})", Screen::name(alert.silence().created_by()),
                                  text::utc(alert.silence().ends_ms()), Screen::name(alert.silence().reason()),
                                  Screen::name(alert.silence().id()));
    say_indented(said, screen);
  } else if (!alert.inhibited_by().empty()) {
    screen.out << fmt::format("  silenced while {} explains it\n", Screen::name(alert.inhibited_by()));
  } else if (alert.held_until_ms() != 0) {
    screen.out << fmt::format("  held back until {}: it pages if it is still open then\n", text::utc(alert.held_until_ms()));
  }
}

ExitCode show_alert(Client& client, const ShowAlertOptions& options, const Screen& screen) {
  v1::GetAlertRequest request;
  request.set_id(options.id);
  v1::GetAlertResponse response;
  call(client, &v1::Alerts::Stub::GetAlert, request, response);
  if (screen.json) {
    print_json(response, screen.out);
    return kExitOk;
  }
  const v1::Alert& alert = response.alert();
  screen.out << screen.paint(Screen::name(alert.run()), text::Style::kBold) << ", " << state_word(alert.state());
  if (!alert.acknowledged_by().empty()) screen.out << ", acknowledged by " << Screen::name(alert.acknowledged_by());
  screen.out << '\n';
  print_quiet(alert, screen);
  for (const auto& place : alert.places()) {
    screen.out << fmt::format("  rank {}: {}{}{}\n", place.rank(), Screen::name(place.host()),
                              place.gpu_uuid().empty() ? "" : ", ", Screen::name(place.gpu_uuid()));
  }
  for (const auto& [name, value] : alert.labels())
    screen.out << fmt::format("  {}={}\n", Screen::name(name), Screen::name(value));
  if (!alert.runbook().empty()) screen.out << "  runbook: " << Screen::name(alert.runbook()) << '\n';
  screen.out << '\n';
  print_finding(from_proto(alert.finding()), Detail::kFull, screen);
  print_trail(alert, screen);
  print_told(alert, screen);
  return kExitOk;
}

ExitCode create_silence(Client& client, const SilenceOptions& options, const Screen& screen) {
  const auto span = parse_span(options.duration);
  if (!span) {
    throw CallError(fmt::format("--for {}: expected something like 30m, 2h or 1d", Screen::name(options.duration)), kExitUsage);
  }
  v1::CreateSilenceRequest request;
  for (const std::string& matcher : options.matchers) request.add_matchers(matcher);
  request.set_duration_ms(*span);
  request.set_who(options.who);
  request.set_reason(options.reason);
  v1::CreateSilenceResponse response;
  call(client, &v1::Alerts::Stub::CreateSilence, request, response);
  if (screen.json) {
    print_json(response, screen.out);
    return kExitOk;
  }
  print_silence(response.silence(), screen);
  screen.out << fmt::format("Open alerts that it silences now: {}\n", response.alerts());
  return kExitOk;
}

ExitCode list_silences(Client& client, const SilencesOptions& options, const Screen& screen) {
  v1::ListSilencesRequest request;
  request.set_ended(options.all);
  v1::ListSilencesResponse response;
  call(client, &v1::Alerts::Stub::ListSilences, request, response);
  if (screen.json) {
    print_json(response, screen.out);
    return kExitOk;
  }
  if (response.silences().empty())
    screen.out << (options.all ? "No silences.\n" : "No silences: --all lists ended ones too.\n");
  for (const auto& silence : response.silences()) print_silence(silence, screen);
  return kExitOk;
}

ExitCode end_silence(Client& client, const UnsilenceOptions& options, const Screen& screen) {
  v1::EndSilenceRequest request;
  request.set_id(options.id);
  request.set_who(options.who);
  v1::EndSilenceResponse response;
  call(client, &v1::Alerts::Stub::EndSilence, request, response);
  if (screen.json) {
    print_json(response, screen.out);
    return kExitOk;
  }
  print_silence(response.silence(), screen);
  return kExitOk;
}

ExitCode test_sinks(Client& client, const TestSinksOptions& options, const Screen& screen) {
  v1::TestSinksRequest request;
  request.set_sink(options.sink);
  request.set_severity(parse_severity(options.severity));
  v1::TestSinksResponse response;
  call(client, &v1::Alerts::Stub::TestSinks, request, response, kTestDeadline);
  bool all = true;
  for (const auto& test : response.sinks()) all = all && test.delivered();
  const ExitCode code = all ? kExitOk : kExitWarning;
  if (screen.json) {
    print_json(response, screen.out);
    return code;
  }
  for (const auto& test : response.sinks()) {
    screen.out << fmt::format("{} ({}): ", Screen::name(test.sink()), Screen::name(test.type()));
    if (test.delivered()) {
      screen.out << fmt::format("delivered in {:.0f} ms\n", test.seconds() * 1000);
    } else {
      screen.out << screen.paint("not delivered: " + Screen::name(test.error()), text::Style::kWarning) << '\n';
    }
  }
  return code;
}

ExitCode list_dead_letters(Client& client, const DeadLettersOptions& options, const Screen& screen) {
  constexpr std::uint32_t kPage = 1000;
  v1::ListDeadLettersResponse all;
  v1::ListDeadLettersRequest request;
  request.set_sink(options.sink);
  while (true) {
    const auto left = options.limit - static_cast<std::uint32_t>(all.letters_size());
    request.set_page_size(static_cast<std::int32_t>(std::min(left, kPage)));
    v1::ListDeadLettersResponse page;
    call(client, &v1::Alerts::Stub::ListDeadLetters, request, page);
    all.set_next_page_token(page.next_page_token());
    for (auto& letter : *page.mutable_letters()) *all.add_letters() = std::move(letter);
    if (page.next_page_token().empty() || static_cast<std::uint32_t>(all.letters_size()) >= options.limit) break;
    request.set_page_token(page.next_page_token());
  }
  if (screen.json) {
    print_json(all, screen.out);
    return kExitOk;
  }
  if (all.letters().empty()) screen.out << "No dead letters: every page was taken, or is still tried.\n";
  for (const auto& letter : all.letters()) {
    const std::string rule = letter.rule().empty() ? "an alert that cannot be read" : Screen::name(letter.rule());
    screen.out << screen.paint(rule, text::Style::kBold);
    if (!letter.run().empty()) screen.out << " in " << Screen::name(letter.run());
    screen.out << fmt::format(", {} to {}\n", Screen::name(letter.transition()), Screen::name(letter.sink()));
    if (!letter.summary().empty()) say_indented(Screen::name(letter.summary()), screen);
    say_indented(fmt::format("given up {} after {}: {}", screen.when(letter.given_up_ms()),
                             text::plural(letter.tries(), "attempt"), Screen::name(letter.last_error())),
                 screen);
    screen.out << "  " << screen.paint(Screen::name(letter.key()), text::Style::kDim) << '\n';
  }
  if (!all.next_page_token().empty()) screen.out << fmt::format("There are more than {}: see --limit.\n", options.limit);
  return kExitOk;
}

ExitCode replay_dead_letters(Client& client, const ReplayLettersOptions& options, const Screen& screen) {
  v1::ReplayDeadLettersRequest request;
  // No sink's name has a slash, and every key has one.
  (options.which.find('/') == std::string::npos ? request.mutable_sink() : request.mutable_key())->assign(options.which);
  request.set_who(options.who);
  v1::ReplayDeadLettersResponse response;
  call(client, &v1::Alerts::Stub::ReplayDeadLetters, request, response);
  if (screen.json) {
    print_json(response, screen.out);
  } else {
    screen.out << fmt::format("{} on the way again; `alerts dead` lists what is given up once more.\n",
                              text::plural(response.replayed(), "page"));
  }
  return kExitOk;
}

}  // namespace scalewatch::cli
