// The spool through kills, forks, damage and full disks.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <memory>

#include "client_lib/src/spool.h"
#include "tests/unit/client/spool_fixture.h"

namespace scalewatch::client {
namespace {

// Ends and reaps the child, if it is there.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : pid_(fork()) {
    if (pid_ != 0) return;
    work();
    _exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill_now(); }
  void kill_now() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    wait_for();
  }
  int wait_for() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// One end speaks, the other waits.
class Pipe {
 public:
  Pipe() {
    if (pipe(ends_) != 0) ADD_FAILURE() << std::strerror(errno);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void say() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void hear() const {
    char heard = 0;
    EXPECT_EQ(::read(ends_[0], &heard, 1), 1);
  }
  // Until every other process has closed its end.
  void hear_end() const {
    close(ends_[1]);
    char heard = 0;
    while (::read(ends_[0], &heard, 1) > 0) {
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

// A file system of 1 MiB.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path at) : at_(std::move(at)) {
    fs::create_directory(at_);
    mounted_ = mount("none", at_.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) umount2(at_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  fs::path at_;
  bool mounted_ = false;
};

TEST_F(SpoolTest, AKilledProcessLeavesASoundPrefix) {
  const Pipe some;
  Child trainer([&] {
    Spool log = spool();
    log.append_table("first part");
    log.append_table("second part");
    for (std::uint64_t seq = 1;; ++seq) {
      if (!log.append(report(seq, 3000), kNow)) _exit(1);
      if (seq == 500) some.say();
    }
  });
  some.hear();
  EXPECT_EQ(leftovers().size(), 0U) << "of a living process";
  trainer.kill_now();

  auto left = leftovers();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(leftovers().size(), 0U) << "held by this one now";
  EXPECT_EQ(left[0].owner().run, owner().run);
  EXPECT_EQ(left[0].owner().incarnation, owner().incarnation);
  EXPECT_EQ(left[0].owner().incarnation_order, owner().incarnation_order);
  EXPECT_EQ(left[0].owner().hello, owner().hello);
  for (int pass = 0; pass < 2; ++pass) {
    std::string part;
    EXPECT_EQ(left[0].next_table(part), SpoolRead::kOk);
    EXPECT_EQ(part, "first part");
    EXPECT_EQ(left[0].next_table(part), SpoolRead::kOk);
    EXPECT_EQ(part, "second part");
    EXPECT_EQ(left[0].next_table(part), SpoolRead::kEnd);
    left[0].rewind_table();
  }
  ASSERT_GE(left[0].last_seq(), 500U);
  for (std::uint64_t seq = 1; seq <= left[0].last_seq(); ++seq) expect_report(left[0], seq, 3000);
  left[0].drop_through(left[0].last_seq());
  left.clear();
  EXPECT_EQ(folder(), fs::path());
}

TEST_F(SpoolTest, CutsATornTailAtEveryLength) {
  leave(1, 2);
  const std::uintmax_t sound = fs::file_size(segments().at(0));
  fs::remove_all(folder());
  leave(1, 3);
  const fs::path file = segments().at(0);
  for (std::uintmax_t size = fs::file_size(file) - 1; size >= sound; --size) {
    fs::resize_file(file, size);
    auto left = leftovers();
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].torn(), size != sound);
    EXPECT_EQ(left[0].last_seq(), 2U);
    expect_report(left[0], 2);
  }
  fs::resize_file(file, 3);
  const Leftovers found = find_leftovers(options_, owner().run, owner().rank);
  EXPECT_EQ(found.spools.size(), 0U);
  EXPECT_EQ(found.notes.size(), 1U);
  EXPECT_EQ(folder(), fs::path());
}

TEST_F(SpoolTest, AFlippedByteIsNeverSent) {
  leave(1, 3);
  const fs::path file = segments().at(0);
  const std::uintmax_t size = fs::file_size(file);
  const auto flip = [&file](std::uintmax_t at) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    bytes.seekg(static_cast<std::streamoff>(at)).get(byte);
    bytes.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte ^ 0x10));
  };
  const std::uintmax_t record = (size - 8) / 3;
  for (std::uintmax_t at = 8; at < size; ++at) {
    flip(at);
    const std::uint64_t hit = (at - 8) / record + 1;
    const bool head = (at - 8) % record < 48;
    if (hit == 1 && head) {  // nothing sound is left, and the folder would go
      flip(at);
      continue;
    }
    auto left = leftovers();
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].last_seq(), head ? hit - 1 : 3);
    for (std::uint64_t seq = 1; seq <= left[0].last_seq(); ++seq) {
      if (seq == hit) {
        expect_loss(left[0], seq, seq, LossCause::kInternal);
      } else {
        expect_report(left[0], seq);
      }
    }
    left.clear();
    flip(at);
  }
}

TEST_F(SpoolTest, DamageInTheMiddleIsALossOfKnownRange) {
  constexpr std::size_t kBytes = 1 << 20;
  leave(1, 12, kBytes);
  ASSERT_EQ(segments().size(), 4U);
  fs::resize_file(segments()[1], fs::file_size(segments()[1]) - kBytes - 1000);  // ends within its second report
  fs::remove(segments()[2]);
  auto left = leftovers();
  ASSERT_EQ(left.size(), 1U);
  for (std::uint64_t seq = 1; seq <= 4; ++seq) expect_report(left[0], seq, kBytes);
  expect_loss(left[0], 5, 9, LossCause::kInternal);
  for (std::uint64_t seq = 10; seq <= 12; ++seq) expect_report(left[0], seq, kBytes);
  left[0].drop_through(12);
  EXPECT_TRUE(left[0].empty());
}

TEST_F(SpoolTest, GoesOnAfterDamageToWhatItWrites) {
  Spool log = spool();
  for (std::uint64_t seq = 1; seq <= 3; ++seq) ASSERT_TRUE(log.append(report(seq), kNow));
  fs::resize_file(segments().at(0), fs::file_size(segments()[0]) - 1);
  expect_loss(log, 3, 3, LossCause::kInternal);
  ASSERT_TRUE(log.append(report(4), kNow));
  expect_report(log, 2);
  expect_loss(log, 3, 3, LossCause::kInternal);
  expect_report(log, 4);
}

TEST_F(SpoolTest, AFolderWithoutASoundIdentityIsGivenUp) {
  leave(1, 2);
  fs::resize_file(folder() / "identity", 30);
  const Leftovers found = find_leftovers(options_, owner().run, owner().rank);
  EXPECT_EQ(found.spools.size(), 0U);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_EQ(folder(), fs::path());
}

TEST_F(SpoolTest, AWorkerThatOutlivesItsTrainerDoesNotHoldTheSpool) {
  const Pipe ready;
  const Pipe over;
  Child trainer([&] {
    Spool log = spool();
    log.append(report(1), kNow);
    if (fork() == 0) {
      ready.say();
      over.hear_end();
      _exit(0);
    }
    pause();
  });
  ready.hear();
  EXPECT_EQ(leftovers().size(), 0U);
  trainer.kill_now();
  EXPECT_EQ(leftovers().size(), 1U);
}

TEST_F(SpoolTest, AForkedChildChangesNothing) {
  auto log = std::make_unique<Spool>(options_, owner());
  ASSERT_TRUE(log->append(report(1), kNow));
  log->drop_through(1);  // empty: its end deletes the folder
  Child worker([&] { log.reset(); });
  EXPECT_EQ(worker.wait_for(), 0);
  EXPECT_EQ(leftovers().size(), 0U);
  EXPECT_TRUE(log->append(report(2), kNow)) << log->error();
  expect_report(*log, 2);
}

TEST_F(SpoolTest, AFullDiskLeavesItReadable) {
  const fs::path disk = root_ / "disk";
  const SmallDisk mounted(disk);
  if (!mounted.mounted()) GTEST_SKIP() << "mounting a small tmpfs needs root: " << std::strerror(errno);
  options_.directory = disk;
  std::uint64_t seq = 1;
  {
    Spool log = spool();
    ASSERT_TRUE(log.append(report(1, 1000), kNow));
    std::ofstream(disk / "filler") << std::string(900'000, 'x');
    while (seq < 10'000 && log.append(report(seq + 1, 1000), kNow)) ++seq;
    std::ofstream(disk / "filler2") << std::string(200'000, 'x');
    EXPECT_FALSE(log.append(report(seq + 1, 20'000), kNow));
    expect_report(log, seq, 1000);
    fs::remove(disk / "filler");
    EXPECT_TRUE(log.append(report(seq + 1, 20'000), kNow)) << log.error();
  }
  auto left = leftovers();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_FALSE(left[0].torn());
  for (std::uint64_t at = 1; at <= seq; ++at) expect_report(left[0], at, 1000);
  expect_report(left[0], seq + 1, 20'000);
}

TEST_F(SpoolTest, AFileSizeLimitDoesNotKillTheTrainer) {
  Child trainer([&] {
    const rlimit limit{10'000, 10'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Spool log = spool();
    for (std::uint64_t seq = 1; seq <= 30; ++seq) {
      if (!log.append(report(seq, 1000), kNow)) _exit(1);
    }
    if (log.append(report(31, 20'000), kNow)) _exit(2);
    if (log.read(30)->message != text_of(30, 1000)) _exit(3);
    _exit(0);
  });
  EXPECT_EQ(trainer.wait_for(), 0);
  EXPECT_GE(segments().size(), 4U);
}

}  // namespace
}  // namespace scalewatch::client
