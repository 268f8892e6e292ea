#include "server/fleet/fleet_history.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "server/auth/grpc_call.h"
#include "server/fleet/run_list.h"

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kBelieve{2000};  // where a run was found
constexpr std::size_t kMaxFound = 10'000;

// A call about one run, made here or passed on.
template <class Request, class Response>
engine::Status by_run(Locator& locator, engine::HistoryApi& local, const Request& request, Response& response,
                      engine::Status (engine::HistoryApi::*here)(const Request&, Response&),
                      grpc::Status (v1::History::Stub::*there)(grpc::ClientContext*, const Request&, Response*)) {
  Peer* peer = locator.server_of(request.run());
  if (peer == nullptr) return (local.*here)(request, response);
  grpc::ClientContext context;
  peer->prepare(context, kForwarded, kCallTimeout);
  const grpc::Status status = (peer->history().*there)(&context, request, &response);
  engine::Status told = to_status(*peer, status);
  if (!is_silence(status) && told.code != engine::Status::kNotFound) return told;
  // What this server has of the run is better than nothing.
  response.Clear();
  engine::Status own = (local.*here)(request, response);
  return own.code == engine::Status::kNotFound && !is_silence(status) ? told : own;
}

}  // namespace

engine::Status to_status(Peer& peer, const grpc::Status& status) {
  if (peer.refused(status)) {
    return {engine::Status::kFailedPrecondition, peer.why_missing() + " (" + status.error_message() + ")"};
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return {engine::Status::kUnavailable, status.error_message()};
    case grpc::StatusCode::UNKNOWN:
      return {engine::Status::kInternal, status.error_message()};
    default:
      return {static_cast<engine::Status::Code>(status.error_code()), status.error_message()};
  }
}

bool tells_all(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().count(auth::kNote) == 0;
}

std::string missing(Locator& locator, const std::vector<Peer*>& told, Listed listed) {
  Fleet& fleet = locator.fleet();
  SharedOnly& shared = locator.shared_only();
  const std::string what = listed == Listed::kRuns ? "runs" : "alerts";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  // What is shared of theirs is in the list.
  const bool whole = shared.whole();
  for (const Instance& instance : fleet.peers().all()) {
    const Peer* peer = fleet.peers().named(instance.name);
    if (peer == nullptr || std::find(told.begin(), told.end(), peer) != told.end() || (whole && !peer->refuses())) continue;
    add(peer->why_missing() + ": its " + what + " may be missing");
  }
  if (fleet.shared() == nullptr) return text;
  if (!whole) {
    add(std::string(kNotWhole) + ": " + what + " that only it has are missing");
  } else if (listed == Listed::kRuns && shared.more_runs()) {
    add("the shared history has more than " + std::to_string(SharedOnly::kMaxRuns) +
        " runs: older ones that only it has are missing");
  } else if (listed == Listed::kAlerts && shared.more_alerts()) {
    add("the shared history has more than " + std::to_string(SharedOnly::kMaxAlerts) +
        " open alerts: lesser ones that only it has are missing");
  }
  return text;
}

bool is_silence(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// ---- where ----------------------------------------------------------------------------------------------------------

Locator::Locator(Fleet& fleet, engine::HistoryApi& local) : fleet_(fleet), local_(local), shared_only_(fleet) {}

Peer* Locator::server_of(const std::string& name_or_uid) {
  if (fleet_.holds(name_or_uid)) return nullptr;
  const auto now = SteadyClock::now();
  {
    const std::lock_guard lock(mutex_);
    const auto it = found_.find(name_or_uid);
    if (it != found_.end() && now < it->second.until && (it->second.peer == nullptr || it->second.peer->alive())) {
      return it->second.peer;
    }
  }
  const std::optional<Peer*> found = look(name_or_uid);
  if (!found) return nullptr;  // and it may begin at any moment
  const std::lock_guard lock(mutex_);
  if (found_.size() >= kMaxFound) found_.clear();
  found_[name_or_uid] = {*found, now + kBelieve};
  return *found;
}

std::optional<Peer*> Locator::look(const std::string& name_or_uid) {
  if (const auto holding = fleet_.holders(name_or_uid); !holding.empty()) return holding.front();
  // Nobody has it in memory: whose store is its own.
  v1::GetRunRequest request;
  request.set_run(name_or_uid);
  v1::GetRunResponse here;
  const bool known = local_.get_run(request, here).ok();
  const std::string& owner = here.run().instance();
  if (known && (owner.empty() || owner == fleet_.self().name)) return nullptr;
  if (known) {
    Peer* peer = fleet_.peers().named(owner);
    if (peer != nullptr && peer->alive()) return peer;
  }
  Peer* best = nullptr;
  Peer* refusing = nullptr;
  std::int64_t newest = known ? here.run().last_report_ms() : -1;
  for (const auto& answer : ask<v1::GetRunResponse>(fleet_.peers().alive(), kForwarded, kCallTimeout,
                                                    [&](Peer& peer, grpc::ClientContext* context, auto* out, auto done) {
                                                      peer.history().async()->GetRun(context, &request, out, std::move(done));
                                                    })) {
    if (answer.peer->refused(answer.status)) refusing = answer.peer;
    if (!answer.status.ok()) continue;
    if (answer.response.run().instance() == answer.peer->instance().name) return answer.peer;
    if (answer.response.run().last_report_ms() > newest) {
      newest = answer.response.run().last_report_ms();
      best = answer.peer;
    }
  }
  if (known && best == nullptr) fleet_.renew(name_or_uid);
  if (known || best != nullptr || fleet_.bring(name_or_uid)) return best;
  if (refusing != nullptr) return refusing;  // it may have the run, and says what is wrong
  return std::nullopt;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

using Stub = v1::History::Stub;
using Api = engine::HistoryApi;

engine::Status FleetHistory::get_run(const v1::GetRunRequest& request, v1::GetRunResponse& response) {
  return by_run(locator_, local_, request, response, &Api::get_run, &Stub::GetRun);
}
engine::Status FleetHistory::list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) {
  return by_run(locator_, local_, request, response, &Api::list_tensors, &Stub::ListTensors);
}
engine::Status FleetHistory::get_tensor_history(const v1::GetTensorHistoryRequest& request,
                                                v1::GetTensorHistoryResponse& response) {
  return by_run(locator_, local_, request, response, &Api::get_tensor_history, &Stub::GetTensorHistory);
}
engine::Status FleetHistory::get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) {
  return by_run(locator_, local_, request, response, &Api::get_attempt, &Stub::GetAttempt);
}
engine::Status FleetHistory::top_tensors(const v1::TopTensorsRequest& request, v1::TopTensorsResponse& response) {
  return by_run(locator_, local_, request, response, &Api::top_tensors, &Stub::TopTensors);
}
engine::Status FleetHistory::get_scaler_history(const v1::GetScalerHistoryRequest& request,
                                                v1::GetScalerHistoryResponse& response) {
  return by_run(locator_, local_, request, response, &Api::get_scaler_history, &Stub::GetScalerHistory);
}
engine::Status FleetHistory::get_heat_map(const v1::GetHeatMapRequest& request, v1::GetHeatMapResponse& response) {
  return by_run(locator_, local_, request, response, &Api::get_heat_map, &Stub::GetHeatMap);
}

// Every list is in the same order, so the first page of all is within the first pages of each. It is made anew without a server
// that turns out not to answer: of its runs others tell then.
engine::Status FleetHistory::list_runs(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) {
  const Fleet& fleet = locator_.fleet();
  RunListMerge merge(request);
  if (engine::Status status = merge.begin(); !status.ok()) return status;
  std::vector<Peer*> peers = fleet.peers().alive();
  while (true) {
    SharedOnly::Tellers tellers{{fleet.self().name}};
    std::vector<RunListMerge::Source> sources;
    sources.push_back({fleet.self().name, [&](const v1::ListRunsRequest& page, v1::ListRunsResponse& out) {
                         engine::Status status = local_.list_runs(page, out);
                         for (v1::RunSummary& run : *out.mutable_runs()) {
                           const bool own = run.instance().empty() || run.instance() == fleet.self().name;
                           if (!own && locator_.shared_only().is_stump(run.run_uid())) run.set_instance(kNobody);
                         }
                         return status;
                       }});
    for (Peer* peer : peers) {
      tellers.servers.insert(peer->instance().name);
      sources.push_back({peer->instance().name, [peer, &tellers](const v1::ListRunsRequest& page, v1::ListRunsResponse& out) {
                           grpc::ClientContext context;
                           peer->prepare(context, kForwarded, kListTimeout);
                           engine::Status status = to_status(*peer, peer->history().ListRuns(&context, page, &out));
                           // Asked before the shared history is, which then tells the rest.
                           if (!tells_all(context)) tellers.servers.erase(peer->instance().name);
                           if (peer->refuses()) status.code = engine::Status::kUnavailable;
                           return status;
                         }});
    }
    sources.push_back({"", [&](const v1::ListRunsRequest& page, v1::ListRunsResponse& out) {
                         for (v1::RunSummary& run : locator_.shared_only().runs(page, tellers))
                           *out.add_runs() = std::move(run);
                         return engine::Status();
                       }});
    locator_.shared_only().refresh(tellers.servers);
    std::set<std::string> left_out;
    engine::Status status = merge.run(sources, response, left_out);
    if (!status.ok()) return status;
    if (left_out.empty()) return {.note = missing(locator_, peers, Listed::kRuns)};
    std::erase_if(peers, [&](const Peer* peer) { return left_out.contains(peer->instance().name); });
    response.Clear();
  }
}

bool tail_elsewhere(Locator& locator, const std::string& run, const std::function<bool(const v1::TailRunResponse&)>& write,
                    const std::function<bool()>& cancelled, engine::Status& end) {
  Peer* peer = locator.server_of(run);
  if (peer == nullptr) return false;
  v1::TailRunRequest request;
  request.set_run(run);
  grpc::ClientContext context;
  peer->prepare(context, kForwarded, milliseconds(0));
  // A reader that goes away while nothing comes is noticed by the watcher, which ends the call.
  std::atomic<bool> over{false};
  std::thread watcher([&] {
    while (!over && !cancelled()) std::this_thread::sleep_for(milliseconds(200));
    if (!over) context.TryCancel();
  });
  const auto reader = peer->history().TailRun(&context, request);
  v1::TailRunResponse event;
  while (reader->Read(&event)) {
    if (write(event)) continue;
    context.TryCancel();
    break;
  }
  over = true;
  watcher.join();
  end = to_status(*peer, reader->Finish());
  return true;
}

}  // namespace scalewatch::fleet
