// Reports that are not yet durable on the server, in the order of seq, within a bound of bytes.
//
// Every seq given out is in here, as a report or within a loss, until durable() passes it; so whatever a server asks to resume
// from can be answered without a gap. Owned by the client's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "client_lib/src/types.h"

namespace scalewatch::client {

class SendBuffer {
 public:
  // What became of reports, in total.
  struct Counters {
    std::uint64_t thinned = 0;
    std::uint64_t dropped[6] = {};  // by LossCause
    [[nodiscard]] std::uint64_t dropped_total() const {
      std::uint64_t total = 0;
      for (const std::uint64_t n : dropped) total += n;
      return total;
    }
  };
  // A report's message, or a loss when message is empty.
  struct Item {
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    LossCause cause = LossCause::kInternal;
    bool full = false;  // still holds record blocks
    std::string message;
  };

  explicit SendBuffer(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // seq continues last_seq(); message is a packed report.
  void add_report(std::uint64_t seq, bool full, std::string message);
  void add_loss(std::uint64_t seq, LossCause cause);

  // The server holds everything up to seq for good.
  void durable(std::uint64_t seq);
  // A stream begins: the server holds everything up to seq and wants what follows.
  void resume(std::uint64_t seq);
  // The server refused this report.
  void reject(std::uint64_t seq);

  // What is to be sent next, nullptr when all was sent. A loss is returned as the part that was not announced on this stream.
  // Valid until the next call that changes the buffer.
  [[nodiscard]] const Item* next();
  // next() was sent.
  void sent();
  // next() is larger than the server takes: thins it, or turns it into a loss.
  void too_large();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t last_seq() const { return last_seq_; }
  [[nodiscard]] std::uint64_t durable_seq() const { return durable_seq_; }
  [[nodiscard]] bool all_durable() const { return durable_seq_ == last_seq_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static std::uint64_t cost(const Item& item) { return sizeof(Item) + item.message.capacity(); }
  std::size_t find(std::uint64_t seq) const;
  void push(Item item);
  void thin(Item& item);
  void lose(std::size_t index, LossCause cause);
  void merge_around(std::size_t index);
  void shrink();

  std::deque<Item> items_;
  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  std::uint64_t last_seq_ = 0;
  std::uint64_t durable_seq_ = 0;
  std::uint64_t cursor_ = 1;       // first seq not sent on this stream
  std::uint64_t thin_before_ = 0;  // every report with a smaller seq is thin already
  Item part_;                      // a loss of which a part was announced
  Counters counters_;
};

}  // namespace scalewatch::client
