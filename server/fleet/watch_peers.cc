#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "server/fleet/fleet_alerts.h"

namespace scalewatch::fleet {

namespace {

constexpr std::size_t kMaxQueued = 1024;  // changes of a server that the reader has not taken

// One server's stream. Lives until gRPC is done with it, which end() asks for.
class PeerWatch final : public grpc::ClientReadReactor<v1::WatchAlertsResponse>,
                        public std::enable_shared_from_this<PeerWatch> {
 public:
  static std::shared_ptr<PeerWatch> start(Peer& peer, const v1::WatchAlertsRequest& request) {
    std::shared_ptr<PeerWatch> watch(new PeerWatch(request));
    watch->self_ = watch;
    peer.prepare(watch->context_, kForwarded, std::chrono::milliseconds(0));
    peer.alerts().async()->WatchAlerts(&watch->context_, &watch->request_, watch.get());
    watch->StartRead(&watch->incoming_);
    watch->StartCall();
    return watch;
  }

  void end() { context_.TryCancel(); }
  [[nodiscard]] bool over() const {
    const std::lock_guard lock(mutex_);
    return over_;
  }
  void take(std::vector<v1::WatchAlertsResponse>& out) {
    const std::lock_guard lock(mutex_);
    if (dropped_ > 0) out.emplace_back().set_dropped(std::exchange(dropped_, 0));
    std::move(queue_.begin(), queue_.end(), std::back_inserter(out));
    queue_.clear();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      const std::lock_guard lock(mutex_);
      if (incoming_.has_dropped()) dropped_ += incoming_.dropped();
      if (incoming_.has_alert()) queue_.push_back(incoming_);
      if (queue_.size() > kMaxQueued) {
        queue_.pop_front();
        ++dropped_;
      }
    }
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& /*status*/) override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    self_.reset();  // may be the last reference: nothing follows
  }

 private:
  explicit PeerWatch(v1::WatchAlertsRequest request) : request_(std::move(request)) {}

  const v1::WatchAlertsRequest request_;
  grpc::ClientContext context_;
  v1::WatchAlertsResponse incoming_;
  std::shared_ptr<PeerWatch> self_;
  mutable std::mutex mutex_;
  std::deque<v1::WatchAlertsResponse> queue_;
  std::uint64_t dropped_ = 0;
  bool over_ = false;
};

class PeersWatch final : public alerting::OtherAlerts {
 public:
  PeersWatch(const Peers& peers, v1::WatchAlertsRequest request) : peers_(peers), request_(std::move(request)) {}
  ~PeersWatch() override {
    for (const auto& [peer, watch] : watches_) watch->end();
  }
  PeersWatch(const PeersWatch&) = delete;
  PeersWatch& operator=(const PeersWatch&) = delete;

  std::vector<v1::WatchAlertsResponse> take() override {
    std::vector<v1::WatchAlertsResponse> out;
    for (const auto& [peer, watch] : watches_) watch->take(out);
    std::erase_if(watches_, [](const auto& each) { return each.second->over(); });
    for (Peer* peer : peers_.alive()) {
      const bool watched = std::any_of(watches_.begin(), watches_.end(), [&](const auto& each) { return each.first == peer; });
      if (!watched && !peer->refuses()) watches_.emplace_back(peer, PeerWatch::start(*peer, request_));
    }
    return out;
  }

 private:
  const Peers& peers_;
  const v1::WatchAlertsRequest request_;
  std::vector<std::pair<Peer*, std::shared_ptr<PeerWatch>>> watches_;
};

}  // namespace

std::unique_ptr<alerting::OtherAlerts> watch_peers(const Peers& peers, const v1::WatchAlertsRequest& request) {
  return std::make_unique<PeersWatch>(peers, request);
}

}  // namespace scalewatch::fleet
