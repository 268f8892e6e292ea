// What may be asked: an HTTP request (method, target, content type, a line each, then the body) through the router and the JSON
// API, or the bytes of one of the history's requests, over a small store. The first byte says which. $SCALEWATCH_FUZZ_WIRE
// names a recorded stream of tests/data/wire that fills the store.
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "server/app/system_clock.h"
#include "server/engine/engine.h"
#include "server/history/history_api.h"
#include "server/http/api.h"
#include "tests/unit/http/fakes.h"

namespace scalewatch {
namespace {

struct NoOutbox final : engine::AlertOutbox {
  void stage(const engine::RunContext& /*run*/, const std::vector<domain::FindingEvent>& /*events*/,
             engine::CommitBatch& /*batch*/) override {}
  void resolve_all(const engine::RunContext& /*run*/, const std::string& /*why*/, engine::CommitBatch& /*batch*/) override {}
  std::vector<domain::Acknowledged> reconcile(const engine::RunContext& /*run*/, const std::vector<domain::Finding>& /*open*/,
                                              bool /*settled*/, engine::CommitBatch& /*batch*/) override {
    return {};
  }
  void committed(const engine::CommitBatch& /*batch*/) override {}
};

struct Peer final : engine::StreamPeer {
  void send(const v1::ServerMessage& /*message*/) override {}
  void resume() override { room.set_value(); }
  void end(const v1::Fault& /*fault*/) override { std::abort(); }
  void finish() override { over.set_value(); }
  std::promise<void> room, over;
};

// A store with one run in it.
struct Watched {
  Watched() : store(history::SqliteStore::open(folder)), api(history::make_history_api(*store)) {
    const char* path = std::getenv("SCALEWATCH_FUZZ_WIRE");
    std::ifstream file(path == nullptr ? "" : path, std::ios::binary);
    const std::string wire((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (wire.empty()) return;
    NoOutbox outbox;
    app::SystemClock clock;
    engine::EngineOptions options;
    options.limits = engine::default_limits();
    engine::Engine engine(options, *store, outbox, clock);
    auto peer = std::make_shared<Peer>();
    const auto stream = engine.attach(peer);
    for (std::size_t at = 0; at + 4 <= wire.size();) {
      std::uint32_t length = 0;
      std::memcpy(&length, wire.data() + at, sizeof length);
      v1::ClientMessage message;
      if (!message.ParseFromArray(wire.data() + at + 4, static_cast<int>(length))) std::abort();
      at += 4 + length;
      if (stream->on_message(std::move(message)) == engine::Stream::Next::kPause) peer->room.get_future().wait();
    }
    peer->over.get_future().wait();
    stream->closed();
  }
  ~Watched() {
    api.reset();
    store.reset();
    std::filesystem::remove_all(folder);
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("scalewatch-api-fuzz-" + std::to_string(getpid()));
  std::unique_ptr<history::SqliteStore> store;
  std::unique_ptr<engine::HistoryApi> api;
};

void check(const engine::Status& status) {
  if (!status.ok() && status.message.empty()) std::abort();
  if (status.code == engine::Status::kInternal) std::abort();
}

template <class Request, class Response>
void ask(engine::HistoryApi& api, engine::Status (engine::HistoryApi::*method)(const Request&, Response&),
         const std::uint8_t* data, std::size_t size) {
  Request request;
  Response response;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  check((api.*method)(request, response));
  (void)response.SerializeAsString();  // names and texts are valid
}

std::string line_of(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

void request(const http::Router& router, std::string_view text) {
  http::Request request;
  request.method = line_of(text);
  request.target = line_of(text);
  request.content_type = line_of(text);
  request.body = text;
  const http::Router::Match match = router.match(request);
  const http::Response response = match.route == nullptr ? match.error : match.route->handler({request, match.url, match.path});
  if (response.status < 200 || response.status > 599 || response.status == 500) std::abort();
}

}  // namespace
}  // namespace scalewatch

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace scalewatch;
  using engine::HistoryApi;
  static google::protobuf::LogSilencer quiet;
  static Watched watched;
  static http::FakeAlerts alerts;
  static const http::Router router(
      http::api_routes({[] { return watched.api.get(); }, [] { return static_cast<engine::AlertsApi*>(&alerts); }}));
  if (size < 1) return 0;
  const std::uint8_t* rest = data + 1;
  HistoryApi& api = *watched.api;
  switch (data[0] % 16) {
    case 0:
      ask(api, &HistoryApi::list_runs, rest, size - 1);
      break;
    case 1:
      ask(api, &HistoryApi::get_run, rest, size - 1);
      break;
    case 2:
      ask(api, &HistoryApi::list_tensors, rest, size - 1);
      break;
    case 3:
      ask(api, &HistoryApi::get_tensor_history, rest, size - 1);
      break;
    case 4:
      ask(api, &HistoryApi::get_attempt, rest, size - 1);
      break;
    case 5:
      ask(api, &HistoryApi::top_tensors, rest, size - 1);
      break;
    case 6:
      ask(api, &HistoryApi::get_scaler_history, rest, size - 1);
      break;
    case 7:
      ask(api, &HistoryApi::get_heat_map, rest, size - 1);
      break;
    default:
      request(router, {reinterpret_cast<const char*>(rest), size - 1});
  }
  return 0;
}
