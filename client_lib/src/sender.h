// The client's thread: brings what the collector made of the trainer's posts to the server, over as many streams as that takes.
//
// Life: waiting -> greeting (Hello written) -> live (HelloAck came) -> leaving (Goodbye written) -> waiting or over.
// What earlier clients of this rank left in the spool goes first, each on a stream of its own under its old identity.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client_lib/src/collector.h"
#include "client_lib/src/credentials.h"
#include "client_lib/src/mailbox.h"
#include "client_lib/src/sampling.h"
#include "client_lib/src/send_buffer.h"
#include "client_lib/src/servers.h"
#include "client_lib/src/spool.h"
#include "client_lib/src/stream.h"
#include "client_lib/src/types.h"
#include "client_lib/src/unpack.h"

namespace scalewatch::client {

struct SenderOptions {
  std::vector<std::string> servers;  // not empty
  Credentials credentials;
  std::uint64_t buffer_bytes = 0;
  std::size_t ring_attempts = 0;
  SpoolOptions spool;
};

class Sender {
 public:
  // identity, and sampling (the trainer's own), must outlive the sender and change no more.
  Sender(Mailbox& mailbox, SenderOptions options, const Identity& identity, const Sampling& sampling, Devices& devices);

  // Runs until the mailbox is closed and all is done, or its deadline passed.
  void run();

 private:
  using Clock = Mailbox::Clock;
  enum class State { kWaiting, kGreeting, kLive, kLeaving, kOver };
  void find_left_over();
  [[nodiscard]] const Mailbox::Mail& mail() const { return collector_.mail(); }
  [[nodiscard]] Outbox& outbox() { return left_over_.empty() ? own_ : left_over_.front(); }
  void step(Clock::time_point now);
  void connect(Clock::time_point now);
  void receive(Clock::time_point now);
  void handle(HelloAck&& ack, Clock::time_point now);
  void handle(const Ack& ack, Clock::time_point now);
  void handle(const Fault& fault, Clock::time_point now);
  void write(Clock::time_point now);
  bool write_one(Clock::time_point now);
  void send(const std::string& message);
  void on_end(const Stream::End& end, Clock::time_point now);
  void retry(Clock::time_point now);
  void move(const std::string& owner, Clock::time_point now);
  [[nodiscard]] std::chrono::milliseconds jitter(std::chrono::milliseconds bound);
  void stop(std::string_view why);
  // After a denial: whether there is another token now, to try again with.
  [[nodiscard]] bool has_new_token() const;
  void next_outbox(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const;
  void publish();

  Mailbox& mailbox_;
  const SenderOptions options_;
  const Identity& identity_;
  const std::string name_;  // of run and rank, for people
  std::deque<Outbox> left_over_;
  bool keep_until_replicated_ = false;    // as the newest server said
  std::set<std::string> left_over_sent_;  // incarnations of all that were found
  Outbox own_;
  Status status_;
  Collector collector_;

  State state_ = State::kWaiting;
  std::unique_ptr<Stream> stream_;
  std::string token_;  // that the stream showed
  Servers servers_;
  bool stopped_ = false;
  bool failure_said_ = false;
  bool leaving_noted_ = false;
  std::uint32_t max_message_bytes_;
  std::size_t table_sent_ = 0;     // messages of the table that the server knows
  std::size_t table_greeted_ = 0;  // messages that the last Hello spoke of
  Clock::time_point retry_at_;
  Clock::time_point greeting_until_;
  Clock::time_point live_since_;
  Clock::time_point last_write_;
  Clock::time_point look_at_age_;
  unsigned failures_ = 0;  // since the last stream that brought anything forward
  // How often all servers have failed since then.
  [[nodiscard]] unsigned rounds_failed() const { return failures_ / static_cast<unsigned>(servers_.size()); }
  unsigned tries_closing_ = 0;
  std::minstd_rand random_;
};

}  // namespace scalewatch::client
