// What is kept, thinned, lost and resent.
#include "client_lib/src/send_buffer.h"

#include <gtest/gtest.h>

#include <vector>

#include "client_lib/src/pack.h"

namespace scalewatch::client {
namespace {

constexpr std::uint64_t kPlenty = 1 << 20;

std::string full_report(std::uint64_t seq, std::size_t tensors = 100) {
  Attempt attempt;
  attempt.seq = seq;
  for (std::size_t i = 0; i < tensors; ++i) {
    Measured& m = attempt.measured.emplace_back();
    m.id = static_cast<std::uint32_t>(i);
    m.role = Role::kGradient;
    m.micro_batches = 1;
  }
  return ReportPacker().pack(attempt, {});
}

void add(SendBuffer& buffer, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seq = first; seq <= last; ++seq) buffer.add_report(seq, true, full_report(seq));
}

struct Sent {
  std::uint64_t first, last;
  bool report;
  LossCause cause;
  bool operator==(const Sent&) const = default;
};
Sent report(std::uint64_t seq) {
  return {seq, seq, true, LossCause::kInternal};
}
Sent loss(std::uint64_t first, std::uint64_t last, LossCause cause) {
  return {first, last, false, cause};
}

std::vector<Sent> send_all(SendBuffer& buffer) {
  std::vector<Sent> sent;
  while (const auto* item = buffer.next()) {
    sent.push_back({item->first_seq, item->last_seq, !item->message.empty(), item->cause});
    if (!item->message.empty()) sent.back().cause = LossCause::kInternal;
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
  EXPECT_FALSE(buffer.next()->full);
  buffer.sent();
  EXPECT_TRUE(buffer.next()->full);
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
  EXPECT_FALSE(buffer.next()->full);
  EXPECT_FALSE(buffer.next()->message.empty());
  buffer.too_large();
  EXPECT_EQ(send_all(buffer), (std::vector<Sent>{loss(1, 1, LossCause::kTooLarge)}));
}

}  // namespace
}  // namespace scalewatch::client
