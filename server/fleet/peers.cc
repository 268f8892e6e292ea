#include "server/fleet/peers.h"

#include <grpcpp/generic/generic_stub.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace scalewatch::fleet {

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";
constexpr milliseconds kFirstRound{1000};
constexpr int kGoodAnswers = 2;  // in a row, of one that had gone

// HealthCheckResponse{status: SERVING}, its only field.
bool is_serving(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes == std::string("\x08\x01", 2);
}

}  // namespace

std::string mark_of(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find(kMark);
  return found == context.client_metadata().end() ? std::string() : std::string(found->second.data(), found->second.size());
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

void Peers::probe(Peer& peer) {
  const auto call = std::make_shared<Probe>(peer.channel_);
  call->context.set_deadline(std::chrono::system_clock::now() + down_after_);
  const grpc::Slice nothing("");
  call->request = grpc::ByteBuffer(&nothing, 1);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    probes_.push_back(call);
  }
  call->stub.UnaryCall(&call->context, kHealthCheck, {}, &call->request, &call->response,
                       [this, &peer, call](const grpc::Status& status) {
                         const bool serving = status.ok() && is_serving(call->response);
                         const std::lock_guard lock(mutex_);
                         probed(peer, status.ok(), serving);
                         std::erase(probes_, call);
                         woken_.notify_all();
                       });
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
  if (peer.good_ > 0 || SteadyClock::now() - peer.last_good_ < down_after_) return;
  if (peer.alive_.exchange(false)) changes.emplace_back(&peer, false);
}

}  // namespace scalewatch::fleet
