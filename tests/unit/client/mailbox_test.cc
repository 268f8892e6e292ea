// What passes between the trainer's thread and the client's, and what is lost when the client's thread falls behind.
#include "client_lib/src/mailbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace scalewatch::client {
namespace {

constexpr std::size_t kTensors = 100;
constexpr std::size_t kSheets = 4;

class MailboxTest : public testing::Test {
 protected:
  MailboxTest() {
    for (std::size_t i = 0; i < kTensors; ++i) mailbox.add_tensor({});
    mailbox.prepare(1, 1, false);
  }

  // One attempt with every tensor measured, so many of them not finite.
  void post(std::size_t bad = 0) {
    mailbox.attempt().number = ++number;
    for (std::size_t i = 0; i < kTensors; ++i) {
      Measured& measured = mailbox.sheet().emplace_back();
      measured.id = static_cast<std::uint32_t>(i);
      if (i < bad) measured.record.nan = 1;
    }
    mailbox.attempt().scalers.emplace_back();
    mailbox.post(bad, kTensors);
  }
  void give_back_all() {
    for (Attempt* attempt : mail.attempts) mailbox.give_back(attempt);
    mail.attempts.clear();
  }

  Mailbox mailbox{kSheets * kTensors * sizeof(Measured)};
  Mailbox::Mail mail;
  std::uint64_t number = 0;
};

TEST_F(MailboxTest, HandsOverInOrderAndUsesItsMemoryAgain) {
  std::vector<const Measured*> seen;
  for (int round = 0; round < 100; ++round) {
    post();
    mailbox.take(mail);
    ASSERT_EQ(mail.attempts.size(), 1U);
    EXPECT_EQ(mail.attempts[0]->number, number);
    EXPECT_EQ(mail.ended, number);
    ASSERT_EQ(mail.attempts[0]->sheet->size(), kTensors);
    const Measured* memory = mail.attempts[0]->sheet->data();
    if (std::ranges::find(seen, memory) == seen.end()) seen.push_back(memory);
    give_back_all();
  }
  EXPECT_LE(seen.size(), kSheets);
  EXPECT_EQ(mail.tensors.size(), 0U);
}

TEST_F(MailboxTest, StatisticsGoFirstThenWholeAttempts) {
  for (std::size_t i = 0; i < Mailbox::kAttempts + 10; ++i) post(i == 5 ? 3 : 0);
  mailbox.take(mail);
  EXPECT_EQ(mail.ended, Mailbox::kAttempts + 10);
  ASSERT_EQ(mail.attempts.size(), Mailbox::kAttempts);
  for (std::size_t i = 0; i < mail.attempts.size(); ++i) {
    const Attempt& attempt = *mail.attempts[i];
    EXPECT_EQ(attempt.number, i + 1);
    EXPECT_EQ(attempt.scalers.size(), 1U);
    const bool full = i < kSheets - 1;  // the trainer holds one
    EXPECT_EQ(attempt.statistics_lost, full ? LossCause::kNone : LossCause::kQueueFull);
    EXPECT_EQ(attempt.sheet == nullptr ? 0 : attempt.sheet->size(), full ? kTensors : i == 5 ? 3U : 0U) << i;
  }
  give_back_all();
  post();
  mailbox.take(mail);
  ASSERT_EQ(mail.attempts.size(), 1U);
  EXPECT_EQ(mail.attempts[0]->sheet->size(), kTensors);
}

TEST(Mailbox, SheetsOfATableThatGrewAreBounded) {
  constexpr std::size_t kMany = 10'000;
  Mailbox mailbox(4 * kMany * sizeof(Measured));
  mailbox.add_tensor({});
  mailbox.prepare(0, 0, false);  // many small sheets
  for (std::size_t i = 1; i < kMany; ++i) mailbox.add_tensor({});
  Mailbox::Mail mail;
  std::set<const Sheet*> seen;
  for (std::uint64_t number = 1; number <= 300; ++number) {
    mailbox.attempt().number = number;
    mailbox.sheet().resize(kMany);
    mailbox.post(0, kMany);
    mailbox.take(mail);
    for (Attempt* attempt : mail.attempts) {
      if (number > 100 && attempt->sheet != nullptr) seen.insert(attempt->sheet);
      mailbox.give_back(attempt);
    }
    mail.attempts.clear();
  }
  EXPECT_GT(seen.size(), 0U);
  EXPECT_LE(seen.size(), 4U);
}

// Before the client's thread has looked at all: an attempt whose tensors were declared after it began, and those right after
// it.
TEST(Mailbox, TensorsDeclaredWithinAnAttemptKeepItsStatistics) {
  Mailbox mailbox(std::uint64_t{1} << 24);
  mailbox.prepare(0, 0, false);
  std::uint64_t number = 0;
  const auto attempts = [&mailbox, &number](std::size_t tensors, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      mailbox.attempt().number = ++number;
      mailbox.sheet().resize(tensors);
      mailbox.post(0, tensors);
    }
  };
  for (std::size_t i = 0; i < kTensors; ++i) mailbox.add_tensor({});
  attempts(kTensors, Mailbox::kEnlargedHere);
  for (std::size_t i = kTensors; i < 5 * kTensors; ++i) mailbox.add_tensor({});
  attempts(5 * kTensors, Mailbox::kEnlargedHere);
  EXPECT_GE(mailbox.sheet().capacity(), 5 * kTensors);  // nothing is left to allocate when it is filled

  Mailbox::Mail mail;
  mailbox.take(mail);
  ASSERT_EQ(mail.attempts.size(), number);
  EXPECT_EQ(mail.tensors.size(), 5 * kTensors);
  for (Attempt* attempt : mail.attempts) {
    EXPECT_EQ(attempt->statistics_lost, LossCause::kNone) << attempt->number;
    ASSERT_NE(attempt->sheet, nullptr) << attempt->number;
    EXPECT_EQ(attempt->sheet->size(), attempt->number <= Mailbox::kEnlargedHere ? kTensors : 5 * kTensors);
    mailbox.give_back(attempt);
  }
  // From then on the client's thread alone makes sheets larger: the small ones that are left go back to it.
  mail.attempts.clear();
  attempts(5 * kTensors, 1);
  for (int round = 0; round < 2; ++round) {
    mailbox.take(mail);
    for (Attempt* attempt : mail.attempts) mailbox.give_back(attempt);
    mail.attempts.clear();
    attempts(5 * kTensors, 10);
  }
  mailbox.take(mail);
  ASSERT_EQ(mail.attempts.size(), 10U);
  for (const Attempt* attempt : mail.attempts) EXPECT_EQ(attempt->statistics_lost, LossCause::kNone) << attempt->number;
  EXPECT_GE(mailbox.sheet().capacity(), 5 * kTensors);
}

TEST_F(MailboxTest, MisuseComesWithItsAttemptAndIsBounded) {
  Misuse misuse;
  std::size_t taken = 0;
  for (misuse.attempt = 1; mailbox.post(misuse); ++misuse.attempt) ++taken;
  EXPECT_EQ(taken, 128U);
  Misuse seen;
  EXPECT_FALSE(mailbox.take_misuse(0, seen));
  EXPECT_TRUE(mailbox.take_misuse(1, seen));
  EXPECT_EQ(seen.attempt, 1U);
  EXPECT_FALSE(mailbox.take_misuse(1, seen));
}

TEST_F(MailboxTest, NewestOverridesReachTheTrainer) {
  EXPECT_EQ(mailbox.overrides(), nullptr);
  for (std::uint16_t i = 0; i < 50; ++i) {
    auto said = std::make_unique<Overrides>();
    said->of.push_back(i);
    mailbox.offer(std::move(said));
    if (i % 3 == 0) continue;  // replaced before the trainer looks
    ASSERT_NE(mailbox.overrides(), nullptr);
    EXPECT_EQ(mailbox.overrides()->of[0], i);
    mailbox.take(mail);  // frees what was retired
  }
}

TEST_F(MailboxTest, TwoThreadsLoseNothingButWhatTheySay) {
  constexpr std::uint64_t kCount = 20'000;
  std::uint64_t got = 0;
  std::uint64_t last = 0;
  std::uint64_t full = 0;
  std::thread client([&] {
    while (last < kCount) {
      mailbox.take(mail);
      for (const Attempt* attempt : mail.attempts) {
        EXPECT_GT(attempt->number, last);
        last = attempt->number;
        ++got;
        if (attempt->statistics_lost == LossCause::kNone) {
          ++full;
          EXPECT_EQ(attempt->sheet->size(), kTensors);
        }
      }
      give_back_all();
      last = std::max(last, mail.ended);
    }
  });
  for (std::uint64_t i = 0; i < kCount; ++i) post();
  client.join();
  EXPECT_GT(got, 0U);
  EXPECT_LE(got, kCount);
  EXPECT_GT(full, 0U);
}

}  // namespace
}  // namespace scalewatch::client
