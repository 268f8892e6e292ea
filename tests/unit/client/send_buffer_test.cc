// What is kept, thinned, lost and resent.
#include "client_lib/src/send_buffer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "client_lib/src/pack.h"
#include "scalewatch/v1/ingest.pb.h"

namespace scalewatch::client {
namespace {

constexpr std::uint64_t kPlenty = 1 << 20;

// tensors: records, of which so many are not finite.
std::string full_report(std::uint64_t seq, std::size_t tensors = 100, std::size_t bad = 0) {
  Sheet sheet(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    sheet[i].id = static_cast<std::uint32_t>(i);
    sheet[i].role = Role::kGradient;
    sheet[i].micro_batches = 1;
    if (i < bad) sheet[i].record.nan = 1;
  }
  Attempt attempt;
  attempt.number = seq;
  attempt.sheet = &sheet;
  return ReportPacker().pack(attempt, seq, {}, {});
}

void add(SendBuffer& buffer, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seq = first; seq <= last; ++seq) buffer.add_report(seq, Fullness::kFull, full_report(seq));
}

struct Sent {
  std::uint64_t first, last;
  bool report;
  LossCause cause;
  bool operator==(const Sent&) const = default;
};
Sent report(std::uint64_t seq) {
  return {seq, seq, true, LossCause::kNone};
}
Sent loss(std::uint64_t first, std::uint64_t last, LossCause cause) {
  return {first, last, false, cause};
}

std::vector<Sent> send_all(SendBuffer& buffer) {
  std::vector<Sent> sent;
  while (const auto* item = buffer.next()) {
    sent.push_back({item->first_seq, item->last_seq, !item->message.empty(), item->cause});
    buffer.sent();
  }
  return sent;
}

TEST(SendBuffer, ResendsFromWhereTheServerStands) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  add(buffer, 1, 4);
  EXPECT_EQ(send_all(buffer).size(), 4U);
  buffer.durable(2);
  EXPECT_EQ(buffer.next(), nullptr);
  buffer.resume(2);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{report(3), report(4)}));
  buffer.resume(3);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{report(4)}));
  buffer.durable(99);  // more than was given out
  EXPECT_TRUE(buffer.all_durable());
  EXPECT_EQ(buffer.bytes(), 0U);
}

TEST(SendBuffer, ThinsTheOldestFirst) {
  SendBuffer buffer(7 * (full_report(1).capacity() + sizeof(SendBuffer::Item)) / 2);
  buffer.resume(0);
  add(buffer, 1, 4);
  EXPECT_EQ(buffer.counters().thinned, 1U);
  EXPECT_EQ(buffer.counters().dropped_total(), 0U);
  EXPECT_EQ(buffer.next()->fullness, Fullness::kBadOnly);
  buffer.sent();
  EXPECT_EQ(buffer.next()->fullness, Fullness::kFull);
}

TEST(SendBuffer, NonFiniteTensorsOutliveTheOthers) {
  const std::uint64_t one = full_report(1, 100, 3).capacity() + sizeof(SendBuffer::Item);
  SendBuffer buffer(20 * one);
  buffer.resume(0);
  for (std::uint64_t seq = 1; seq <= 60; ++seq) buffer.add_report(seq, Fullness::kFull, full_report(seq, 100, 3));
  EXPECT_LE(buffer.bytes(), 20 * one);
  EXPECT_EQ(buffer.counters().dropped_total(), 0U);
  v1::ClientMessage first;
  ASSERT_TRUE(first.ParseFromString(buffer.next()->message));
  EXPECT_EQ(first.report().statistics_lost(), v1::LOSS_CAUSE_BUFFER_FULL);
  ASSERT_EQ(first.report().blocks_size(), 1);
  EXPECT_EQ(first.report().blocks(0).nan_size(), 3);
}

TEST(SendBuffer, AnOldStreamComesBackWithItsLast64FullReports) {
  SendBuffer buffer(64 * kPlenty);
  buffer.resume(0);
  add(buffer, 1, 100);
  buffer.resume(10, true);
  std::size_t full = 0;
  for (std::uint64_t seq = 11; const auto* item = buffer.next(); ++seq) {
    ASSERT_EQ(item->first_seq, seq);
    EXPECT_EQ(item->fullness == Fullness::kFull, seq > 100 - SendBuffer::kFullOnReconnect) << seq;
    full += item->fullness == Fullness::kFull ? 1 : 0;
    buffer.sent();
  }
  EXPECT_EQ(full, SendBuffer::kFullOnReconnect);
  EXPECT_EQ(buffer.counters().thinned, 100 - 10 - SendBuffer::kFullOnReconnect);
}

TEST(SendBuffer, CountsAttemptsThatAreDurableOrLost) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  add(buffer, 1, 2);
  buffer.add_report(0, Fullness::kFull, full_report(3));  // retrospective: no attempt of its own
  buffer.add_loss(3, LossCause::kQueueFull);
  send_all(buffer);
  buffer.durable(3);
  EXPECT_EQ(buffer.durable_attempts(), 2U);
  buffer.durable(4);
  EXPECT_EQ(buffer.durable_attempts(), 3U);
}

TEST(SendBuffer, BytesComeBackToZero) {
  const std::uint64_t one = full_report(1).capacity() + sizeof(SendBuffer::Item);
  SendBuffer buffer(20 * one);
  buffer.resume(0);
  for (std::uint64_t seq = 1; seq <= 600; ++seq) {
    if (seq % 7 == 0) {
      buffer.add_loss(seq, LossCause::kQueueFull);
    } else {
      buffer.add_report(seq, Fullness::kFull, full_report(seq));
    }
    if (seq % 50 == 0) {
      buffer.resume(seq - 45);
      send_all(buffer);
      buffer.reject(seq - 20);
    }
  }
  EXPECT_LE(buffer.bytes(), 20 * one);
  send_all(buffer);
  buffer.durable(600);
  EXPECT_EQ(buffer.bytes(), 0U);
}

TEST(SendBuffer, WhatArrivedAllTheSameIsNotCountedAsLost) {
  const std::uint64_t one = full_report(1).capacity() + sizeof(SendBuffer::Item);
  SendBuffer buffer(4 * one);
  buffer.resume(0);
  add(buffer, 1, 3);
  send_all(buffer);     // on their way, no ack yet
  add(buffer, 4, 200);  // the buffer overflows
  EXPECT_GT(buffer.counters().dropped_total(), 0U);
  std::uint64_t lost = 0;
  for (const Sent& sent : send_all(buffer)) lost += sent.report ? 0 : sent.last - sent.first + 1;
  buffer.durable(200);
  EXPECT_EQ(buffer.counters().dropped_total(), lost);  // 1 to 3 were not among them
}

TEST(SendBuffer, AnAckBeyondWhatWasSentIsNotBelieved) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  add(buffer, 1, 3);
  ASSERT_NE(buffer.next(), nullptr);
  buffer.sent();
  buffer.durable(3);
  EXPECT_EQ(buffer.durable_seq(), 1U);
}

TEST(SendBuffer, ThenLosesTheOldestAndMergesTheirRange) {
  SendBuffer buffer(8 * sizeof(SendBuffer::Item));
  buffer.resume(0);
  add(buffer, 1, 100);
  EXPECT_LE(buffer.bytes(), 8 * sizeof(SendBuffer::Item));
  EXPECT_GE(buffer.counters().thinned, 99U);
  const std::uint64_t lost = buffer.counters().dropped[static_cast<int>(LossCause::kBufferFull)];
  const auto sent = send_all(buffer);
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.front(), loss(1, lost, LossCause::kBufferFull));
  EXPECT_EQ(sent.size(), 1 + 100 - lost);
  EXPECT_EQ(sent.back(), report(100));
}

TEST(SendBuffer, LossesOfOneCauseMergeAndOthersDoNot) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  buffer.add_loss(1, LossCause::kQueueFull);
  buffer.add_loss(2, LossCause::kQueueFull);
  buffer.add_loss(3, LossCause::kInternal);
  add(buffer, 4, 4);
  EXPECT_EQ(send_all(buffer),
            (std::vector<Sent>{loss(1, 2, LossCause::kQueueFull), loss(3, 3, LossCause::kInternal), report(4)}));
}

TEST(SendBuffer, AnnouncesOnlyTheNewPartOfALoss) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  buffer.add_loss(1, LossCause::kQueueFull);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(1, 1, LossCause::kQueueFull)}));
  buffer.add_loss(2, LossCause::kQueueFull);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(2, 2, LossCause::kQueueFull)}));
  buffer.resume(0);  // a new stream hears all of it
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(1, 2, LossCause::kQueueFull)}));
  buffer.durable(1);  // a loss stays until all of it is durable
  buffer.resume(1);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(2, 2, LossCause::kQueueFull)}));
}

TEST(SendBuffer, ServerThatForgotIsToldOfTheGap) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  add(buffer, 1, 5);
  send_all(buffer);
  buffer.durable(3);
  buffer.resume(0);
  EXPECT_EQ(buffer.durable_seq(), 0U);
  EXPECT_EQ(buffer.told_durable_seq(), 3U);  // so that a server can tell what it lost
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(1, 3, LossCause::kInternal), report(4), report(5)}));
  buffer.durable(5);
  buffer.resume(2);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(3, 5, LossCause::kInternal)}));
}

TEST(SendBuffer, RejectedReportsAreNotSentAgain) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  add(buffer, 1, 3);
  send_all(buffer);
  buffer.reject(2);
  buffer.reject(2);   // no report any more
  buffer.reject(77);  // never was one
  EXPECT_EQ(buffer.counters().dropped_total(), 1U);
  buffer.resume(0);
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{report(1), loss(2, 2, LossCause::kRejected), report(3)}));
}

TEST(SendBuffer, TooLargeReportsAreThinnedThenLost) {
  SendBuffer buffer(kPlenty);
  buffer.resume(0);
  add(buffer, 1, 1);
  buffer.too_large();
  EXPECT_EQ(buffer.next()->fullness, Fullness::kBadOnly);
  EXPECT_FALSE(buffer.next()->message.empty());
  buffer.too_large();
  EXPECT_EQ(buffer.next()->fullness, Fullness::kNone);
  buffer.too_large();
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(1, 1, LossCause::kTooLarge)}));
}

TEST(SendBuffer, WhatIsOverdueLosesItsStatistics) {
  const std::uint64_t many = SendBuffer::kOverdueBytes / full_report(1).size() + 1;
  SendBuffer buffer(2 * SendBuffer::kOverdueBytes + kPlenty);
  const auto now = std::chrono::steady_clock::now();
  const auto later = now + std::chrono::hours(1);
  const auto next_is = [&](std::chrono::steady_clock::time_point when) {
    buffer.thin_overdue(when);
    const Fullness fullness = buffer.next()->fullness;
    buffer.sent();
    return fullness;
  };
  add(buffer, 1, 2);
  buffer.resume(0);  // what was kept is sent whole, however long it waited
  add(buffer, 3, 2 + 2 * many);
  EXPECT_EQ(next_is(later), Fullness::kFull);
  EXPECT_EQ(next_is(later), Fullness::kFull);
  EXPECT_EQ(next_is(later), Fullness::kFull);  // only now it has caught up: nothing waited since
  EXPECT_EQ(next_is(later + SendBuffer::kOverdue / 2), Fullness::kFull);
  EXPECT_EQ(next_is(later + SendBuffer::kOverdue), Fullness::kBadOnly);
  EXPECT_EQ(buffer.counters().thinned, 1U);
  while (buffer.next() != nullptr && buffer.last_seq() - buffer.next()->last_seq >= 3) buffer.sent();
  EXPECT_EQ(next_is(later + SendBuffer::kOverdue), Fullness::kFull);  // too little is behind it
  EXPECT_EQ(buffer.counters().thinned, 1U);
}

// A server that takes what is sent and is late with it: reports at a steady pace, each durable `took` after it was sent.
class Behind {
 public:
  explicit Behind(std::size_t tensors) : tensors_(tensors) { reconnect(); }

  // Sends the next `count` reports, of which `kept_back` of the newest are not acked; returns how many of them went whole.
  int send(int count, std::chrono::milliseconds took, std::uint64_t kept_back = 4) {
    int whole = 0;
    for (; count > 0; --count) {
      const std::uint64_t seq = buffer_.last_seq() + 1;
      buffer_.add_report(seq, Fullness::kFull, full_report(seq, tensors_));
      now_ += std::chrono::milliseconds(50);
      buffer_.thin_overdue(now_);
      whole += buffer_.next()->fullness == Fullness::kFull ? 1 : 0;
      buffer_.sent(now_);
      sent_.push_back(now_);
      if (seq <= kept_back) continue;
      buffer_.acked(seq - kept_back, sent_[seq - kept_back - 1] + took);
      buffer_.durable(seq - kept_back);
    }
    return whole;
  }
  void reconnect() {
    buffer_.resume(buffer_.durable_seq());
    send_all(buffer_);
  }

 private:
  const std::size_t tensors_;
  SendBuffer buffer_{32 * kPlenty};
  std::chrono::steady_clock::time_point now_ = std::chrono::steady_clock::now();
  std::vector<std::chrono::steady_clock::time_point> sent_;
};

TEST(SendBuffer, AServerThatIsBehindGetsFewerStatistics) {
  using std::chrono::milliseconds;
  Behind behind(1000);
  EXPECT_EQ(behind.send(10, SendWindow::kLate), 10);  // in time
  EXPECT_EQ(behind.send(1, milliseconds(2'000)), 1);  // it hung once
  EXPECT_EQ(behind.send(10, milliseconds(100)), 10);
  EXPECT_EQ(behind.send(2, milliseconds(900)), 2);
  EXPECT_LT(behind.send(10, milliseconds(900)), 10);
  const int whole = behind.send(20, milliseconds(900));
  EXPECT_GT(whole, 0);
  EXPECT_LT(whole, 20);
  behind.send(20, milliseconds(100));
  EXPECT_EQ(behind.send(20, milliseconds(100)), 20);  // it has caught up
  behind.send(10, milliseconds(900));
  EXPECT_LT(behind.send(10, milliseconds(900)), 10);
  behind.reconnect();  // another server, perhaps: nothing is known of it
  EXPECT_EQ(behind.send(4, milliseconds(100)), 4);
}

TEST(SendBuffer, AServerThatIsFarAwayIsNotBehind) {
  Behind far(1000);
  EXPECT_EQ(far.send(200, SendWindow::kFarthest, 8), 200);
  far.send(10, std::chrono::milliseconds(1'500), 8);
  EXPECT_LT(far.send(10, std::chrono::milliseconds(1'500), 8), 10);  // and now it is
}

TEST(SendBuffer, ASlowDiskCostsASmallStreamNothing) {
  Behind small(SendWindow::kLeast / full_report(1, 1).size() / 4);  // 16 KiB a report at most, three on their way
  EXPECT_EQ(small.send(50, std::chrono::milliseconds(5'000), 2), 50);
}

}  // namespace
}  // namespace scalewatch::client
