// What StoredAlerts says of pages that sinks never took, and how they are sent again.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "server/alerting/alert_text.h"
#include "server/alerting/alerts_api.h"
#include "server/alerting/paging.h"
#include "server/alerting/sink.h"

namespace scalewatch::alerting {

namespace {

using engine::Status;
using Letters = engine::AlertReader::DeadLetters;

std::optional<Letters::After> after_of(std::string_view token) {
  Letters::After after;
  const char* const end = token.data() + token.size();
  const auto [dot, first] = std::from_chars(token.data(), end, after.given_up_ms);
  if (first != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [last, second] = std::from_chars(dot + 1, end, after.id);
  if (second != std::errc() || last != end) return std::nullopt;
  return after;
}

std::string token_of(const engine::DeadLetterRow& row) {
  return fmt::format("{}.{}", row.given_up_ms, row.id);
}

v1::DeadLetter letter_of(const engine::DeadLetterRow& row) {
  v1::DeadLetter out;
  out.set_key(row.row.key);
  out.set_sink(row.row.sink);
  out.set_alert_id(row.row.alert_id);
  out.set_transition(row.row.transition);
  out.set_tries(row.tries);
  // The count of tries is a field of its own here.
  const std::string given_up = fmt::format("given up after {} tries: ", row.tries);
  out.set_last_error(row.last_error.starts_with(given_up) ? row.last_error.substr(given_up.size()) : row.last_error);
  out.set_queued_ms(row.row.created_ms);
  out.set_given_up_ms(row.given_up_ms);
  v1::Alert alert;
  // A damaged one is listed by its key all the same.
  if (alert.ParseFromString(row.row.alert)) {
    out.set_run(alert.run());
    out.set_rule(alert.finding().rule());
    out.set_severity(alert.finding().severity());
    out.set_summary(alert.finding().summary());
  }
  return out;
}

engine::OutboxUpdate again(const std::string& key, const std::string& sink, const std::string& who) {
  return {.key = key,
          .sink = sink,
          .delivered = false,
          .tries = 0,
          .next_try_ms = 0,
          .last_error = "sent again by " + who,
          .given_up_ms = 0,
          .again = false};
}

}  // namespace

Status StoredAlerts::list_dead_letters(const v1::ListDeadLettersRequest& request, v1::ListDeadLettersResponse& response) {
  Page<Letters::After> page;
  if (Status status = page.read(request, &after_of); !status.ok()) return status;
  Letters which;
  which.after = page.after;
  which.sink = request.sink();
  which.since_ms = book_.wall_ms() - engine::kDeadLettersKeptMs;
  try {
    std::vector<engine::DeadLetterRow> rows = reader_.dead_letters(which, page.size + 1);
    response.set_next_page_token(page.cut(rows, &token_of));
    for (const engine::DeadLetterRow& row : rows) *response.add_letters() = letter_of(row);
  } catch (const engine::StoreError& error) {
    return {error.retryable ? Status::kUnavailable : Status::kInternal, error.what()};
  }
  return {};
}

Status StoredAlerts::replay_dead_letters(const v1::ReplayDeadLettersRequest& request, v1::ReplayDeadLettersResponse& response) {
  if (std::string fault = who_fault(request.who()); !fault.empty()) return {Status::kInvalidArgument, std::move(fault)};
  engine::CommitBatch batch;
  try {
    Letters which;
    which.sink = request.sink();
    which.key = request.key();
    which.since_ms = book_.wall_ms() - engine::kDeadLettersKeptMs;
    const std::vector<engine::DeadLetterRow> rows = reader_.dead_letters(which, engine::kMaxDeadLetters);
    if (rows.empty()) return {Status::kNotFound, "no dead letter matches; `alerts dead` lists those there are"};
    std::set<std::pair<std::string, std::string>> ends;  // (alert, sink) whose resolve was taken before what is sent now
    for (const engine::DeadLetterRow& row : rows) {
      batch.outbox_updates.push_back(again(row.row.key, row.row.sink, request.who()));
      if (row.row.transition != kResolved) ends.emplace(row.row.alert_id, row.row.sink);
    }
    // A page that comes after its resolve would stay open for ever: the resolve follows once more.
    for (const auto& [alert, sink] : ends) {
      for (const v1::DeliveryStatus& delivery : reader_.deliveries(alert)) {
        if (delivery.sink() != sink || delivery.transition() != kResolved || !delivery.delivered()) continue;
        batch.outbox_updates.push_back(again(delivery.key(), sink, request.who()));
        batch.outbox_updates.back().again = true;
      }
    }
    response.set_replayed(static_cast<std::uint32_t>(rows.size()));
  } catch (const engine::StoreError& error) {
    return {error.retryable ? Status::kUnavailable : Status::kInternal, error.what()};
  }
  auto promise = std::make_shared<std::promise<void>>();
  std::future<void> future = promise->get_future();
  book_.submit(std::move(batch), [promise] { promise->set_value(); });
  if (future.wait_for(patience_) != std::future_status::ready) {
    return {Status::kUnavailable, "the letters are taken but not stored yet; look again later"};
  }
  return {};
}

}  // namespace scalewatch::alerting
