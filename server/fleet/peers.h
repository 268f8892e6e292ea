// The other servers of the fleet: a channel to each, and whether it is there.
//
// Each is asked for its health all the time (grpc.health.v1). One that gives no answer for a while is gone, and one that says
// NOT_SERVING (it is stopping) is gone at once; one that came back must answer twice in a row. Now and then each is also asked
// who it is: what answers in another's place counts as gone. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scalewatch/v1/alerts.grpc.pb.h"
#include "scalewatch/v1/history.grpc.pb.h"
#include "server/fleet/instances.h"

namespace scalewatch::fleet {

// Metadata of calls between servers, which are never passed on.
inline constexpr char kMark[] = "scalewatch-fleet";
inline constexpr char kForwarded[] = "forwarded";           // answer from what is here
inline constexpr char kInstance[] = "scalewatch-instance";  // of answers to them: the server's name
inline constexpr char kList[] = "scalewatch-fleet-list";    // and a hash of all servers' names
inline constexpr char kFull[] = "scalewatch-full";          // and that its store takes no runs
inline constexpr char kHeld[] = "held";                     // GetRun: NOT_FOUND unless the run is in memory here

// The mark of a call; empty: a client's own.
[[nodiscard]] std::string mark_of(const grpc::ServerContextBase& context);

class Peer {
 public:
  Peer(Instance instance, std::shared_ptr<grpc::Channel> channel, std::string token);

  [[nodiscard]] const Instance& instance() const { return instance_; }
  [[nodiscard]] bool alive() const { return alive_; }
  v1::History::Stub& history() { return *history_; }
  v1::Alerts::Stub& alerts() { return *alerts_; }
  // A call to it: its mark, its time limit (0: none), and this server's token.
  void prepare(grpc::ClientContext& context, const char* mark, std::chrono::milliseconds timeout) const;
  // Of a call that has ended: it refused this server's token. The first time, and when it takes it again, that is in the log.
  bool refused(const grpc::Status& status);
  [[nodiscard]] bool refuses() const { return refuses_; }
  // Its store takes runs, as it said last.
  [[nodiscard]] bool has_room() const { return has_room_; }
  // What it said of itself beside its answer to a call, which has ended.
  void heard(const grpc::ClientContext& context);
  // "server b does not answer", or what else keeps its part from being told.
  [[nodiscard]] std::string why_missing() const;

 private:
  friend class Peers;
  const Instance instance_;
  const std::string token_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::History::Stub> history_;
  const std::unique_ptr<v1::Alerts::Stub> alerts_;
  std::atomic<bool> alive_{false};
  std::atomic<bool> refuses_{false};
  std::atomic<bool> has_room_{true};
  std::atomic<bool> misnamed_{false};  // another server answers at its address
  // Of the probes, under Peers::mutex_.
  bool asked_ = false;                                  // one is on its way
  bool told_ = false;                                   // one has ended
  int good_ = 0;                                        // answers in a row
  std::chrono::steady_clock::time_point last_good_;     // or the start
  std::chrono::steady_clock::time_point introduced_{};  // when it last said who it is
  bool heard_ = false;                                  // it has answered anything
  bool said_silent_ = false;                            // that it never did
  bool said_list_ = false;                              // that its list differs
  std::string error_;                                   // of the newest probe
};

class Peers {
 public:
  using MakeChannel = std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;
  using Changed = std::function<void(Peer& peer, bool alive)>;

  // `token`: what this server shows to the others; empty: none.
  Peers(std::vector<Instance> all, const Options& options, const MakeChannel& make_channel, const std::string& token = {});
  ~Peers();  // stops
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Returns when all were asked once, at most a second later. `changed` is called from the probing thread.
  void start(Changed changed);
  // No call that begins afterwards succeeds. Idempotent.
  void stop();

  [[nodiscard]] const std::vector<Instance>& all() const { return all_; }
  [[nodiscard]] std::size_t self() const { return self_; }
  // Of all()[index]; null: this server itself.
  [[nodiscard]] Peer* at(std::size_t index) const { return peers_[index].get(); }
  [[nodiscard]] Peer* named(const std::string& name) const;
  [[nodiscard]] std::vector<Peer*> alive() const;
  // What this server tells the others of itself, as metadata.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> identity() const;

 private:
  struct Probe;
  void loop();
  // Begins a call; false when no more calls begin.
  bool begin(const std::shared_ptr<Probe>& call);
  void ended(const std::shared_ptr<Probe>& call);  // mutex_ held
  void probe(Peer& peer);
  void introduce(Peer& peer);
  // What it said of itself; mutex_ held. False: it is another server.
  bool introduced(Peer& peer, const grpc::ClientContext& context);
  void probed(Peer& peer, bool answered, bool serving);
  void judge(Peer& peer, std::vector<std::pair<Peer*, bool>>& changes);  // mutex_ held

  const std::vector<Instance> all_;
  const std::chrono::milliseconds every_;
  const std::chrono::milliseconds down_after_;
  std::size_t self_ = 0;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::chrono::steady_clock::time_point started_{};

  std::mutex mutex_;
  std::condition_variable woken_;
  std::vector<std::shared_ptr<Probe>> probes_;  // on their way
  std::vector<std::pair<Peer*, bool>> changes_;
  bool stopping_ = false;
  Changed changed_;
  std::thread thread_;
};

template <class Response>
struct Answered {
  Peer* peer = nullptr;
  grpc::Status status;
  Response response;
};

// Asks all of them at once and waits for all. start(peer, context, response, done) begins a call of the asynchronous stub.
template <class Response, class Start>
std::vector<Answered<Response>> ask(const std::vector<Peer*>& peers, const char* mark, std::chrono::milliseconds timeout,
                                    const Start& start) {
  struct Waiting {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t left;
  };
  std::vector<Answered<Response>> answers(peers.size());
  std::vector<grpc::ClientContext> contexts(peers.size());
  const auto waiting = std::make_shared<Waiting>();
  waiting->left = peers.size();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    answers[i].peer = peers[i];
    peers[i]->prepare(contexts[i], mark, timeout);
    start(*peers[i], &contexts[i], &answers[i].response, [waiting, &status = answers[i].status](grpc::Status ended) {
      status = std::move(ended);
      const std::lock_guard lock(waiting->mutex);
      --waiting->left;
      waiting->changed.notify_all();
    });
  }
  std::unique_lock lock(waiting->mutex);
  waiting->changed.wait(lock, [&] { return waiting->left == 0; });
  for (std::size_t i = 0; i < peers.size(); ++i) peers[i]->heard(contexts[i]);
  return answers;
}

}  // namespace scalewatch::fleet
