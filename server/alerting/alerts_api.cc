#include "server/alerting/alerts_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "server/alerting/alert_text.h"
#include "server/alerting/paging.h"

namespace scalewatch::alerting {

namespace {

using engine::Status;
using Cursor = engine::AlertReader::Cursor;

constexpr std::size_t kMaxVisited = 10'000;
constexpr std::size_t kMaxComment = 1024;

Status invalid(std::string message) {
  return {Status::kInvalidArgument, std::move(message)};
}

// The store's trouble in words that a caller can act on.
template <class Function>
Status guarded(const Function& function) {
  try {
    return function();
  } catch (const engine::StoreError& error) {
    return {error.retryable ? Status::kUnavailable : Status::kInternal, error.what()};
  }
}

std::string token_of(const engine::AlertRow& row) {
  return fmt::format("{}.{}.{}", row.severity, row.fired_ms, row.id);
}

template <class Number>
bool take_number(std::string_view& text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || used == text.size() || text[used] != '.') return false;
  text.remove_prefix(used + 1);
  return true;
}

std::optional<Cursor> cursor_of(std::string_view token) {
  Cursor cursor;
  if (!take_number(token, cursor.severity) || !take_number(token, cursor.fired_ms) || token.empty()) return std::nullopt;
  cursor.id = token;
  return cursor;
}

Cursor cursor_of(const engine::AlertRow& row) {
  return {row.severity, row.fired_ms, row.id};
}

std::vector<std::int32_t> open_states() {
  return {v1::ALERT_STATE_PENDING, v1::ALERT_STATE_FIRING, v1::ALERT_STATE_ACKNOWLEDGED, v1::ALERT_STATE_SILENCED};
}

Status not_stored_yet(const std::string& what) {
  return {Status::kUnavailable, what + " is taken but not stored yet; look again later"};
}

Status unreadable(const std::string& id) {
  return {Status::kInternal, fmt::format("the stored alert '{}' is damaged and cannot be read", id)};
}

Status unknown_alert(const std::string& id) {
  return {Status::kNotFound, fmt::format("unknown alert '{}'; list alerts for the ids that exist", id)};
}

}  // namespace

StoredAlerts::StoredAlerts(engine::AlertReader& reader, FindRun find_run, Acknowledge acknowledge, AlertBook& book,
                           SinkTester& tester, std::chrono::milliseconds patience)
    : reader_(reader),
      find_run_(std::move(find_run)),
      acknowledge_(std::move(acknowledge)),
      book_(book),
      tester_(tester),
      patience_(patience) {}

std::optional<v1::Alert> StoredAlerts::read(const engine::AlertRow& row) {
  v1::Alert alert;
  if (!alert.ParseFromString(row.alert)) {
    book_.note_unreadable(row.id);
    return std::nullopt;
  }
  for (v1::DeliveryStatus& delivery : reader_.deliveries(row.id)) *alert.add_deliveries() = std::move(delivery);
  return alert;
}

Status StoredAlerts::make_filter(const std::string& run, int min_severity, engine::AlertReader::Filter& filter) {
  if (!v1::Severity_IsValid(min_severity)) return invalid(fmt::format("min_severity {} is not a severity", min_severity));
  filter.min_severity = min_severity;
  if (run.empty()) return {};
  return guarded([&]() -> Status {
    const std::optional<engine::RunRow> found = find_run_(run);
    if (!found) return {Status::kNotFound, fmt::format("unknown run '{}'; list runs for the names that exist", run)};
    filter.run_uid = found->run_uid;
    return {};
  });
}

Status StoredAlerts::list_alerts(const v1::ListAlertsRequest& request, v1::ListAlertsResponse& response) {
  Page<Cursor> page;
  if (Status status = page.read(request, &cursor_of); !status.ok()) return status;
  engine::AlertReader::Filter filter;
  for (const int state : request.states()) {
    if (!v1::AlertState_IsValid(state) || state == v1::ALERT_STATE_UNSPECIFIED) {
      return invalid(fmt::format("states: {} is not a state", state));
    }
    filter.states.push_back(state);
  }
  if (filter.states.empty()) filter.states = open_states();
  if (Status status = make_filter(request.run(), request.min_severity(), filter); !status.ok()) return status;
  return guarded([&]() -> Status {
    std::vector<engine::AlertRow> rows = reader_.list(filter, page.after, page.size + 1);
    response.set_next_page_token(page.cut(rows, &token_of));
    for (const engine::AlertRow& row : rows) {
      // One that has resolved is among the open ones until its page went; see AlertBook::stage_row.
      auto alert = read(row);
      if (alert && (row.state == v1::ALERT_STATE_RESOLVED || alert->state() != v1::ALERT_STATE_RESOLVED))
        *response.add_alerts() = *std::move(alert);
    }
    return {};
  });
}

Status StoredAlerts::visit_open(const engine::AlertReader::Filter& filter, const std::function<bool(const v1::Alert&)>& visit) {
  engine::AlertReader::Filter open = filter;
  open.states = open_states();
  return guarded([&]() -> Status {
    std::optional<Cursor> after;
    for (std::size_t visited = 0; visited < kMaxVisited;) {
      const auto rows = reader_.list(open, after, Page<Cursor>::kMax);
      for (const engine::AlertRow& row : rows) {
        const auto alert = read(row);
        if (alert && alert->state() != v1::ALERT_STATE_RESOLVED && !visit(*alert)) return {};
      }
      if (rows.size() < Page<Cursor>::kMax) return {};
      visited += rows.size();
      after = cursor_of(rows.back());
    }
    return {};
  });
}

Status StoredAlerts::acknowledge(const v1::AcknowledgeAlertRequest& request, v1::AcknowledgeAlertResponse& response) {
  if (request.id().empty()) return invalid("id is empty; list alerts for the ids that exist");
  if (std::string fault = who_fault(request.who()); !fault.empty()) return invalid(std::move(fault));
  if (request.comment().size() > kMaxComment) return invalid(fmt::format("comment must be at most {} bytes", kMaxComment));

  // Shared: the answer may come after patience ended.
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  acknowledge_(request.id(), request.who(), request.comment(), [promise](const Status& status) { promise->set_value(status); });
  if (future.wait_for(patience_) != std::future_status::ready) return not_stored_yet("the acknowledgement");
  if (Status status = future.get(); !status.ok()) return status;
  return guarded([&]() -> Status {
    const std::optional<engine::AlertRow> row = reader_.find(request.id());
    if (!row) return unknown_alert(request.id());
    auto alert = read(*row);
    if (!alert) return unreadable(request.id());
    *response.mutable_alert() = *std::move(alert);
    return {};
  });
}

Status StoredAlerts::get_alert(const v1::GetAlertRequest& request, v1::GetAlertResponse& response) {
  if (request.id().empty()) return invalid("id is empty; list alerts for the ids that exist");
  return guarded([&]() -> Status {
    const std::optional<engine::AlertRow> row = reader_.find(request.id());
    if (!row) return unknown_alert(request.id());
    auto alert = read(*row);
    if (!alert) return unreadable(request.id());
    *response.mutable_alert() = *std::move(alert);
    return {};
  });
}

Status StoredAlerts::create_silence(const v1::CreateSilenceRequest& request, v1::CreateSilenceResponse& response) {
  try {
    auto promise = std::make_shared<std::promise<v1::CreateSilenceResponse>>();
    std::future<v1::CreateSilenceResponse> future = promise->get_future();
    book_.silence(request, [promise](const v1::Silence& silence, std::uint32_t alerts) {
      v1::CreateSilenceResponse answer;
      *answer.mutable_silence() = silence;
      answer.set_alerts(alerts);
      promise->set_value(std::move(answer));
    });
    if (future.wait_for(patience_) != std::future_status::ready) return not_stored_yet("the silence");
    response = future.get();
    return {};
  } catch (const std::invalid_argument& error) {
    return invalid(error.what());
  } catch (const std::length_error& error) {
    return {Status::kResourceExhausted, error.what()};
  }
}

Status StoredAlerts::end_silence(const v1::EndSilenceRequest& request, v1::EndSilenceResponse& response) {
  if (std::string fault = who_fault(request.who()); !fault.empty()) return invalid(std::move(fault));
  try {
    auto promise = std::make_shared<std::promise<v1::Silence>>();
    std::future<v1::Silence> future = promise->get_future();
    book_.unsilence(request.id(), request.who(), [promise](const v1::Silence& silence) { promise->set_value(silence); });
    if (future.wait_for(patience_) != std::future_status::ready) return not_stored_yet("the end of the silence");
    *response.mutable_silence() = future.get();
    return {};
  } catch (const std::out_of_range& error) {
    return {Status::kNotFound, error.what()};
  } catch (const std::logic_error& error) {
    return {Status::kFailedPrecondition, error.what()};
  }
}

Status StoredAlerts::list_silences(const v1::ListSilencesRequest& request, v1::ListSilencesResponse& response) {
  for (v1::Silence& silence : book_.silences(request.ended())) *response.add_silences() = std::move(silence);
  return {};
}

Status StoredAlerts::test_sinks(const v1::TestSinksRequest& request, v1::TestSinksResponse& response) {
  return tester_.test(request, response);
}

}  // namespace scalewatch::alerting
