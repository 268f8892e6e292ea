// Reports that are not yet durable on the server, in the order of seq: the oldest in a spool on disk, if there is one, the
// others in memory within a bound of bytes.
//
// Every seq given out is in here, as a report or within a loss, until durable() passes it; so whatever a server asks to resume
// from can be answered without a gap. Beyond the bound reports move to the spool. Without one (or beyond its limits) the
// oldest first lose their statistics but for some non-finite tensors, then all statistics, and are lost last.
// Owned by the client's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client_lib/src/pack.h"
#include "client_lib/src/send_window.h"
#include "client_lib/src/spool.h"
#include "client_lib/src/types.h"

namespace scalewatch::client {

class SendBuffer {
 public:
  // Full reports that a new stream brings when there is no spool; older ones come without statistics.
  static constexpr std::size_t kFullOnReconnect = 64;
  // A report that waited for so long on a live stream, with so much behind it, is overdue: the server takes less than is sent.
  static constexpr std::chrono::milliseconds kOverdue{250};
  static constexpr std::uint64_t kOverdueBytes = 256U << 10;

  // What became of reports, in total.
  struct Counters {
    std::uint64_t thinned = 0;
    std::uint64_t dropped[kLossCauses] = {};  // by LossCause
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
    std::uint64_t attempt = 0;  // the newest that it speaks of; 0 = none (a retrospective report)
    LossCause cause = LossCause::kNone;
    Fullness fullness = Fullness::kNone;
    std::string message = {};
    std::uint64_t cost = 0;  // bytes that it is counted as
    bool thinned = false;
    // Thinned or lost after this stream had sent it whole: when it becomes durable without a new stream, it was not.
    bool thinned_behind = false;
    bool lost_behind = false;
    std::chrono::steady_clock::time_point added = {};
    SendWindow::Sent sent = {};

    [[nodiscard]] bool holds(std::uint64_t seq) const { return first_seq <= seq && seq <= last_seq; }
  };

  // spool: null = none.
  explicit SendBuffer(std::uint64_t max_bytes, std::unique_ptr<Spool> spool = nullptr);
  // What an earlier client left, table included; takes no more.
  explicit SendBuffer(std::unique_ptr<Leftover> left_over);

  // A part of the tensor table, packed: goes before the reports that are added later.
  void add_table(std::string message) { table_.push_back(std::move(message)); }
  [[nodiscard]] const std::vector<std::string>& table() const { return table_; }

  // message is a packed report with seq last_seq() + 1; attempt: see Item.
  void add_report(std::uint64_t attempt, Fullness fullness, std::string message);
  void add_loss(std::uint64_t attempt, LossCause cause);

  // The server holds everything up to seq for good. What was not sent it can't hold.
  void durable(std::uint64_t seq);
  // The same, of what this stream brought and before durable(): how long that took tells whether the server is behind.
  void acked(std::uint64_t seq, std::chrono::steady_clock::time_point now);
  // A stream begins: the server holds everything up to seq and wants what follows. after_outage: other tries or streams failed
  // before; without a spool, only the newest kFullOnReconnect reports then come in full.
  // keep: what the server holds is kept all the same, until durable() passes it.
  void resume(std::uint64_t seq, bool after_outage = false, bool keep = false);
  // The server refused this report.
  void reject(std::uint64_t seq);

  // Before next(): without a spool, what is to be sent next loses its statistics but for some non-finite tensors when it is
  // overdue or the server is behind (see SendWindow), so that scaler observations and what alerts need still come in time. What
  // was kept when the stream began keeps them.
  void thin_overdue(std::chrono::steady_clock::time_point now);
  // What is to be sent next, nullptr when all was sent. A loss is returned as the part that was not announced on this stream.
  // Valid until the next call that changes the buffer.
  [[nodiscard]] const Item* next();
  // next() was sent.
  void sent(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  // next() is larger than the server takes: thins it, or turns it into a loss.
  void too_large();

  // Gives up what lies in the spool for longer than its age limit.
  void drop_old(std::chrono::system_clock::time_point now);
  // The process ends: what is not durable goes to the spool for a later start. True when all of it is there.
  bool save();
  // Nothing will be sent any more: forgets everything, on disk too.
  void abandon();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t spooled_bytes() const { return log_ == nullptr ? 0 : log_->bytes(); }
  [[nodiscard]] std::uint64_t last_seq() const { return last_seq_; }
  [[nodiscard]] std::uint64_t durable_seq() const { return durable_seq_; }
  // Highest seq that a server told this process is durable, whatever it forgot since; 0 = none. Nothing up to it is in here.
  [[nodiscard]] std::uint64_t told_durable_seq() const { return told_durable_seq_; }
  // Every attempt up to this one is durable, or lost and announced.
  [[nodiscard]] std::uint64_t durable_attempts() const { return durable_attempts_; }
  [[nodiscard]] bool all_durable() const { return durable_seq_ == last_seq_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // What went wrong on disk last, for people; empty = nothing.
  [[nodiscard]] std::string disk_error() const { return log_ == nullptr ? "" : log_->error(); }

 private:
  void count(Item& item);
  void forget(const Item& item) { bytes_ -= item.cost; }
  std::size_t find(std::uint64_t seq) const;
  void push(Item item);
  void thin(Item& item, Fullness fullness, LossCause cause);
  void lose(std::size_t index, LossCause cause);
  void pass_front();
  void merge_around(std::size_t index);
  bool move_to_spool();
  void shrink();
  void thin_all(Fullness fullness, std::uint64_t& thin_before, LossCause cause);

  std::deque<Item> items_;
  std::vector<std::string> table_;
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Leftover> left_over_;
  SpoolLog* log_ = nullptr;  // the one or the other
  std::chrono::steady_clock::time_point spool_again_;
  std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;
  std::uint64_t last_seq_ = 0;
  std::uint64_t durable_seq_ = 0;
  std::uint64_t told_durable_seq_ = 0;
  std::uint64_t durable_attempts_ = 0;
  std::uint64_t cursor_ = 1;                         // first seq not sent on this stream
  std::uint64_t kept_through_ = 0;                   // was here when this stream began
  std::chrono::steady_clock::time_point caught_up_;  // when that had been sent
  SendWindow window_;                                // of this stream, since then
  std::uint64_t bad_only_before_ = 0;                // every report with a smaller seq has no full statistics
  std::uint64_t bare_before_ = 0;                    // every report with a smaller seq has none at all
  Item current_;                                     // what next() gave, when it is not (all of) an item in memory
  struct Sent {
    std::uint64_t last_seq;
    std::uint64_t attempt;
  };
  std::deque<Sent> from_spool_;    // sent out of the spool and not durable yet
  std::uint64_t gap_counted_ = 0;  // losses that only next() found are in the counters up to here
  Counters counters_;
};

}  // namespace scalewatch::client
