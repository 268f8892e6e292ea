// What the spool on disk keeps, frees and gives back.
#include "client_lib/src/spool.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/client/spool_fixture.h"

namespace scalewatch::client {
namespace {

TEST_F(SpoolTest, GivesBackWhatItGotUntilItIsDurable) {
  Spool log = spool();
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(folder(), fs::path()) << "made before it is needed";
  ASSERT_TRUE(log.append(report(5), kNow)) << log.error();
  ASSERT_TRUE(log.append({6, 9, 0, false, LossCause::kQueueFull, {}}, kNow));
  ASSERT_TRUE(log.append(report(10), kNow));
  EXPECT_FALSE(log.append(report(10), kNow)) << "twice";
  EXPECT_FALSE(log.append(report(12), kNow)) << "a gap";
  ASSERT_TRUE(log.append(report(11), kNow));

  expect_report(log, 5);
  expect_loss(log, 6, 9, LossCause::kQueueFull);
  expect_report(log, 10);
  expect_report(log, 11);
  expect_report(log, 11);
  expect_report(log, 5);
  EXPECT_FALSE(log.read(4).has_value());
  EXPECT_FALSE(log.read(12).has_value());
  EXPECT_EQ(log.bytes(), on_disk());

  log.drop_through(7);
  EXPECT_EQ(log.first_seq(), 8U);
  EXPECT_FALSE(log.read(7).has_value());
  expect_loss(log, 8, 9, LossCause::kQueueFull);
  log.drop_through(100);
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(log.last_seq(), 11U);
  ASSERT_TRUE(log.append(report(20), kNow)) << "what memory held in between never came here";
  expect_report(log, 20);

  struct stat about = {};
  ASSERT_EQ(stat(folder().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
  ASSERT_EQ(stat(segments().at(0).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
}

TEST_F(SpoolTest, AcksFreeDiskAndAHealthyRunLeavesNothing) {
  constexpr std::size_t kBytes = 1 << 20;
  {
    Spool log = spool();
    ASSERT_TRUE(log.append_table("table"));
    for (std::uint64_t seq = 1; seq <= 20; ++seq) ASSERT_TRUE(log.append(report(seq, kBytes), kNow));
    const std::size_t files = segments().size();
    EXPECT_GE(files, 4U);
    expect_report(log, 20, kBytes);
    log.drop_through(12);
    EXPECT_LT(on_disk(), 12 * kBytes);
    EXPECT_EQ(log.bytes(), on_disk());
    EXPECT_LT(segments().size(), files);
    expect_report(log, 13, kBytes);
    log.drop_through(20);
    EXPECT_EQ(segments().size(), 0U);
  }
  EXPECT_EQ(folder(), fs::path());
}

TEST_F(SpoolTest, StaysBelowItsLargestSizeWithWhatOthersLeft) {
  leave(1, 100, 1000);
  options_.max_bytes = 300'000;
  Spool log = spool('b', 8);
  std::uint64_t seq = 1;
  while (seq < 1000 && log.append(report(seq, 1000), kNow)) ++seq;
  EXPECT_NE(log.error().find("full"), std::string::npos) << log.error();
  EXPECT_LE(on_disk(), options_.max_bytes);
  EXPECT_GT(on_disk(), options_.max_bytes - 2000);
  expect_report(log, seq - 1, 1000);
  auto left = leftovers();
  ASSERT_EQ(left.size(), 1U);
  left[0].drop_through(100);
  EXPECT_TRUE(log.append(report(seq, 1000), kNow)) << log.error();
}

TEST_F(SpoolTest, LeavesFreeSpaceAlone) {
  options_.keep_free_bytes = fs::space(root_).available + (1ULL << 40);
  Spool log = spool();
  EXPECT_FALSE(log.append(report(1), kNow));
  EXPECT_NE(log.error().find("free space"), std::string::npos) << log.error();
  EXPECT_EQ(folder(), fs::path());
}

TEST_F(SpoolTest, FindsTheOldestFirst) {
  for (const std::uint64_t order : {30, 10, 20}) {
    Spool log = spool(static_cast<char>('a' + order), order);
    ASSERT_TRUE(log.append(report(order), kNow));
  }
  auto left = leftovers();
  ASSERT_EQ(left.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) expect_report(left[i], 10 * (i + 1));
  EXPECT_EQ(find_leftovers(options_, "my run/ü", 4).spools.size(), 0U) << "another rank";
}

TEST_F(SpoolTest, LeavesWhatIsNotItsOwnAlone) {
  leave(1, 2);
  const fs::path mine = folder();
  const fs::path elsewhere = root_ / "elsewhere";
  fs::rename(mine, elsewhere);
  fs::create_directory_symlink(elsewhere, mine);
  EXPECT_EQ(leftovers().size(), 0U) << "through a link";
  fs::remove(mine);
  if (geteuid() == 0) {
    fs::copy(elsewhere, mine, fs::copy_options::recursive);
    ASSERT_EQ(chown(mine.c_str(), 12345, 12345), 0);
    EXPECT_EQ(leftovers().size(), 0U) << "of another user";
    fs::remove_all(mine);
  }
  fs::rename(elsewhere, mine);
  std::ofstream(mine / "notes.txt") << "of a person";
  std::ofstream(options_.directory / mine.filename().concat("x")) << "a file with a folder's name";
  {
    auto left = leftovers();
    ASSERT_EQ(left.size(), 1U);
    left[0].drop_through(2);
  }
  EXPECT_TRUE(fs::exists(mine / "notes.txt"));
  EXPECT_EQ(std::distance(fs::directory_iterator(mine), fs::directory_iterator()), 1);
}

TEST_F(SpoolTest, OldReportsBecomeALoss) {
  constexpr std::size_t kBytes = 1 << 20;
  options_.max_age = hours(10);
  Spool log = spool();
  for (std::uint64_t seq = 1; seq <= 12; ++seq) {
    ASSERT_TRUE(log.append(report(seq, kBytes), kNow + hours(seq)));  // three a segment
  }
  EXPECT_EQ(log.expire(kNow + hours(11)), 0U);
  EXPECT_EQ(log.expire(kNow + hours(15)), 4U);
  EXPECT_EQ(segments().size(), 3U);
  expect_loss(log, 1, 4, LossCause::kSpoolLimit);
  expect_report(log, 5, kBytes);
  EXPECT_EQ(log.expire(kNow + hours(15)), 0U);
  log.drop_through(2);
  EXPECT_EQ(log.expire(kNow + hours(19)), 4U);
  expect_loss(log, 3, 8, LossCause::kSpoolLimit);
  EXPECT_EQ(log.expire(kNow + hours(100)), 4U);
  expect_loss(log, 3, 12, LossCause::kSpoolLimit);
  EXPECT_EQ(segments().size(), 0U);
  EXPECT_FALSE(log.empty()) << "the server has yet to hear of the loss";
  ASSERT_TRUE(log.append(report(13), kNow + hours(100)));
  expect_report(log, 13);
  log.drop_through(13);
  EXPECT_TRUE(log.empty());
}

TEST_F(SpoolTest, WithoutADirectoryThereIsNone) {
  options_.directory.clear();
  Spool log = spool();
  EXPECT_FALSE(log.append(report(1), kNow));
  EXPECT_FALSE(log.append_table("table"));
  EXPECT_EQ(leftovers().size(), 0U);
}

}  // namespace
}  // namespace scalewatch::client
