#include "server/fleet/peers.h"

#include <grpcpp/generic/generic_stub.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <set>

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
constexpr milliseconds kFirstRound{1000};
constexpr char kGetRun[] = "/scalewatch.v1.History/GetRun";
constexpr milliseconds kIntroduce{10'000};  // how often each is asked who it is
constexpr milliseconds kSilent{10'000};     // after the start: who has not answered by then is told of
constexpr int kGoodAnswers = 2;             // in a row, of one that had gone

// HealthCheckResponse{status: SERVING}, its only field.
bool is_serving(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes == std::string("\x08\x01", 2);
}

std::string value_of(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : std::string(found->second.data(), found->second.size());
}

}  // namespace

std::string mark_of(const grpc::ServerContextBase& context) {
  return value_of(context.client_metadata(), kMark);
}

Peer::Peer(Instance instance, std::shared_ptr<grpc::Channel> channel, std::string token)
    : instance_(std::move(instance)),
      token_(std::move(token)),
      channel_(std::move(channel)),
      history_(v1::History::NewStub(channel_)),
      alerts_(v1::Alerts::NewStub(channel_)) {}

void Peer::prepare(grpc::ClientContext& context, const char* mark, milliseconds timeout) const {
  context.AddMetadata(kMark, mark);
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
  if (timeout.count() > 0) context.set_deadline(std::chrono::system_clock::now() + timeout);
}

bool Peer::refused(const grpc::Status& status) {
  const bool refuses =
      status.error_code() == grpc::StatusCode::UNAUTHENTICATED || status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
  // Any other error says nothing about the token.
  if (!refuses && !status.ok()) return false;
  if (refuses_.exchange(refuses) == refuses) return refuses;
  if (refuses) {
    spdlog::error("fleet: server {} refuses this server's fleet.token_file, which must read and operate all runs: {}",
                  instance_.name, status.error_message());
  } else {
    spdlog::info("fleet: server {} takes this server's fleet.token_file", instance_.name);
  }
  return refuses;
}

void Peer::heard(const grpc::ClientContext& context) {
  const auto& told = context.GetServerTrailingMetadata();
  if (told.contains(kInstance)) has_room_ = !told.contains(kFull);
}

std::string Peer::why_missing() const {
  if (misnamed_) return "what answers at " + instance_.address + " is not server " + instance_.name + " (see its fleet.self)";
  if (refuses_) return "server " + instance_.name + " refuses this server's fleet.token_file";
  return "server " + instance_.name + " does not answer";
}

struct Peers::Probe {
  explicit Probe(const std::shared_ptr<grpc::Channel>& channel) : stub(channel) {}
  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
};

Peers::Peers(std::vector<Instance> all, const Options& options, const MakeChannel& make_channel, const std::string& token)
    : all_(std::move(all)), every_(options.probe_every), down_after_(options.down_after) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].name == options.self) {
      self_ = i;
      peers_.push_back(nullptr);
    } else {
      peers_.push_back(std::make_unique<Peer>(all_[i], make_channel(all_[i].address), token));
      peers_.back()->last_good_ = SteadyClock::now();
    }
  }
}

Peers::~Peers() {
  stop();
}

void Peers::start(Changed changed) {
  changed_ = std::move(changed);
  started_ = SteadyClock::now();
  thread_ = std::thread([this] { loop(); });
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, kFirstRound, [&] {
    return std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) { return !peer || peer->told_; });
  });
}

void Peers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& probe : probes_) probe->context.TryCancel();
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  woken_.wait(lock, [&] { return probes_.empty(); });
}

Peer* Peers::named(const std::string& name) const {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer && peer->instance().name == name; });
  return found == peers_.end() ? nullptr : found->get();
}

std::vector<Peer*> Peers::alive() const {
  std::vector<Peer*> out;
  for (const auto& peer : peers_) {
    if (peer && peer->alive()) out.push_back(peer.get());
  }
  return out;
}

void Peers::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    std::vector<Peer*> due;
    for (const auto& peer : peers_) {
      if (peer && !std::exchange(peer->asked_, true)) due.push_back(peer.get());
    }
    lock.unlock();
    for (Peer* peer : due) probe(*peer);
    lock.lock();
    woken_.wait_for(lock, every_, [&] { return stopping_ || !changes_.empty(); });
    for (const auto& peer : peers_) {
      if (peer) judge(*peer, changes_);
    }
    const auto changes = std::exchange(changes_, {});
    lock.unlock();
    for (const auto& [peer, alive] : changes) {
      spdlog::log(alive ? spdlog::level::info : spdlog::level::warn, "fleet: server {} at {} is {}", peer->instance().name,
                  peer->instance().address, alive ? "there" : "gone");
      if (changed_) changed_(*peer, alive);
    }
    lock.lock();
  }
}

std::vector<std::pair<std::string, std::string>> Peers::identity() const {
  std::set<std::string> names;
  for (const Instance& instance : all_) names.insert(instance.name);
  std::string list;
  for (const std::string& name : names) list += name + ",";
  return {{kInstance, all_[self_].name}, {kList, std::to_string(weight_of(list, ""))}};
}

bool Peers::begin(const std::shared_ptr<Probe>& call) {
  const grpc::Slice nothing("");
  call->request = grpc::ByteBuffer(&nothing, 1);
  const std::lock_guard lock(mutex_);
  if (!stopping_) probes_.push_back(call);
  return !stopping_;
}

void Peers::ended(const std::shared_ptr<Probe>& call) {
  std::erase(probes_, call);
  woken_.notify_all();
}

void Peers::probe(Peer& peer) {
  const auto call = std::make_shared<Probe>(peer.channel_);
  call->context.set_deadline(std::chrono::system_clock::now() + down_after_);
  if (!begin(call)) return;
  call->stub.UnaryCall(&call->context, kHealthCheck, {}, &call->request, &call->response,
                       [this, &peer, call](const grpc::Status& status) {
                         const bool serving = status.ok() && is_serving(call->response);
                         std::unique_lock lock(mutex_);
                         peer.heard_ = peer.heard_ || status.ok();
                         peer.error_ = status.error_message();
                         const bool asks = serving && SteadyClock::now() - peer.introduced_ > kIntroduce;
                         if (asks) {
                           lock.unlock();
                           introduce(peer);
                           lock.lock();
                         } else {
                           probed(peer, status.ok(), serving && !peer.misnamed_);
                         }
                         ended(call);
                       });
}

// GetRun of no run: it is refused, with the server's name beside it, and what is wrong with the token comes first.
void Peers::introduce(Peer& peer) {
  const auto call = std::make_shared<Probe>(peer.channel_);
  peer.prepare(call->context, kForwarded, down_after_);
  if (!begin(call)) return;
  call->stub.UnaryCall(&call->context, kGetRun, {}, &call->request, &call->response,
                       [this, &peer, call](const grpc::Status& status) {
                         const bool silent = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                                             status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                                             status.error_code() == grpc::StatusCode::CANCELLED;
                         const bool taken = status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
                         peer.refused(taken ? grpc::Status::OK : status);
                         const std::lock_guard lock(mutex_);
                         const bool right = introduced(peer, call->context);
                         if (!silent) peer.introduced_ = SteadyClock::now();
                         probed(peer, true, right);
                         ended(call);
                       });
}

bool Peers::introduced(Peer& peer, const grpc::ClientContext& context) {
  peer.heard(context);
  const std::string name = value_of(context.GetServerTrailingMetadata(), kInstance);
  const std::string list = value_of(context.GetServerTrailingMetadata(), kList);
  if (name.empty()) return !peer.misnamed_;  // one of before, or no answer
  const bool wrong = name != peer.instance().name;
  if (peer.misnamed_.exchange(wrong) != wrong && wrong) {
    spdlog::error(
        "fleet: {} should be server {} and says that it is {}: fleet.self must be a server's own name, and fleet.instances the "
        "same on each; it counts as gone",
        peer.instance().address, peer.instance().name, name);
  }
  const bool differs = !wrong && list != identity().back().second;
  if (std::exchange(peer.said_list_, differs) != differs && differs) {
    spdlog::error("fleet: server {} has a list of other servers: fleet.instances must be the same on each", name);
  }
  return !wrong;
}

// mutex_ is held.
void Peers::probed(Peer& peer, bool answered, bool serving) {
  const bool first = !std::exchange(peer.told_, true);
  peer.asked_ = false;
  if (serving) {
    peer.last_good_ = SteadyClock::now();
    if (++peer.good_ >= kGoodAnswers || first) {
      if (!peer.alive_.exchange(true)) changes_.emplace_back(&peer, true);
    }
    return;
  }
  peer.good_ = 0;
  // It says itself that it is going.
  if (answered && peer.alive_.exchange(false)) changes_.emplace_back(&peer, false);
}

void Peers::judge(Peer& peer, std::vector<std::pair<Peer*, bool>>& changes) {
  if (!peer.heard_ && !peer.said_silent_ && SteadyClock::now() - started_ > kSilent) {
    peer.said_silent_ = true;
    spdlog::warn("fleet: server {} at {} has never answered: is it started, and its address right in fleet.instances? ({})",
                 peer.instance().name, peer.instance().address, peer.error_);
  }
  if (peer.good_ > 0 || SteadyClock::now() - peer.last_good_ < down_after_) return;
  peer.introduced_ = {};  // it may come back as another one
  if (peer.alive_.exchange(false)) changes.emplace_back(&peer, false);
}

}  // namespace scalewatch::fleet
