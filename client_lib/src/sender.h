// The client's thread: packs what the trainer posted and brings it to the server, over as many streams as that takes.
//
// Life: waiting -> greeting (Hello written) -> live (HelloAck came) -> leaving (Goodbye written) -> waiting or over.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "client_lib/src/log.h"
#include "client_lib/src/mailbox.h"
#include "client_lib/src/pack.h"
#include "client_lib/src/send_buffer.h"
#include "client_lib/src/stream.h"
#include "client_lib/src/types.h"
#include "client_lib/src/unpack.h"

namespace scalewatch::client {

class Sender {
 public:
  Sender(Mailbox& mailbox, std::string server, Identity identity, std::uint64_t buffer_bytes);

  // Runs until the mailbox is closed and all is done, or its deadline passed.
  void run();

 private:
  using Clock = Mailbox::Clock;
  enum class State { kWaiting, kGreeting, kLive, kLeaving, kOver };

  void collect();
  void step(Clock::time_point now);
  void connect(Clock::time_point now);
  void receive(Clock::time_point now);
  void handle(const HelloAck& ack, Clock::time_point now);
  void handle(const Ack& ack);
  void handle(const Fault& fault);
  void write(Clock::time_point now);
  bool write_one(Clock::time_point now);
  void write_table();
  void send(const std::string& message);
  void on_end(const Stream::End& end, Clock::time_point now);
  void retry(Clock::time_point now);
  void stop(std::string_view why);
  [[nodiscard]] Clock::time_point next_deadline() const;
  void publish();

  Mailbox& mailbox_;
  const std::string server_;
  const Identity identity_;
  Log log_;
  Mailbox::Mail mail_;
  ReportPacker packer_;
  SendBuffer buffer_;
  std::vector<TensorInfo> table_;
  TableHash table_hash_;

  State state_ = State::kWaiting;
  std::unique_ptr<Stream> stream_;
  Status status_;
  bool stopped_ = false;
  bool failure_said_ = false;
  bool leaving_noted_ = false;
  std::uint32_t max_message_bytes_;
  std::uint32_t table_sent_ = 0;     // tensors that the server knows
  std::uint32_t table_greeted_ = 0;  // tensors that the last Hello spoke of
  std::uint32_t table_version_ = 0;
  Clock::time_point retry_at_;
  Clock::time_point greeting_until_;
  Clock::time_point live_since_;
  Clock::time_point last_write_;
  unsigned failures_ = 0;  // since the last stream that brought anything forward
  unsigned tries_closing_ = 0;
  std::minstd_rand random_;
};

}  // namespace scalewatch::client
