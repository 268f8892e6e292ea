// A spool in a folder of its own, and what the tests put into it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "client_lib/src/spool.h"

namespace scalewatch::client {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::system_clock;

inline const system_clock::time_point kNow = system_clock::time_point(hours(24 * 365 * 50));

inline std::string text_of(std::uint64_t seq, std::size_t bytes = 40) {
  return "report " + std::to_string(seq) + std::string(bytes, static_cast<char>('a' + seq % 26));
}

inline SpoolItem report(std::uint64_t seq, std::size_t bytes = 40) {
  return {seq, seq, 10 * seq, seq % 2 == 0, LossCause::kNone, text_of(seq, bytes)};
}

class SpoolTest : public testing::Test {
 protected:
  SpoolTest() {
    std::string name = testing::TempDir() + "spool_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << std::strerror(errno);
    root_ = name;
    options_.directory = root_ / "made" / "on demand";
    options_.keep_free_bytes = 0;
  }
  ~SpoolTest() override { fs::remove_all(root_); }

  static SpoolOwner owner(char incarnation = 'a', std::uint64_t order = 7) {
    return {"my run/ü", 3, std::string(16, incarnation), order, "the packed part of Hello"};
  }
  Spool spool(char incarnation = 'a', std::uint64_t order = 7) const { return {options_, owner(incarnation, order)}; }
  std::vector<Leftover> leftovers() const { return std::move(find_leftovers(options_, owner().run, owner().rank).spools); }
  // As if its process had ended with items unsent.
  void leave(std::uint64_t first, std::uint64_t last, std::size_t bytes = 40) const {
    Spool left = spool();
    for (std::uint64_t seq = first; seq <= last; ++seq) ASSERT_TRUE(left.append(report(seq, bytes), kNow)) << left.error();
  }
  fs::path folder() const {
    if (!fs::exists(options_.directory) || fs::is_empty(options_.directory)) return {};
    return fs::directory_iterator(options_.directory)->path();
  }
  std::vector<fs::path> segments() const {
    std::vector<fs::path> found;
    if (folder().empty()) return found;
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (entry.path().extension() == ".seg") found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }
  std::uint64_t on_disk() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  }
  static void expect_report(SpoolLog& log, std::uint64_t seq, std::size_t bytes = 40) {
    const auto item = log.read(seq);
    ASSERT_TRUE(item.has_value()) << seq << log.error();
    EXPECT_EQ(item->first_seq, seq);
    EXPECT_EQ(item->last_seq, seq);
    EXPECT_EQ(item->attempt, 10 * seq);
    EXPECT_EQ(item->full, seq % 2 == 0);
    EXPECT_EQ(item->message, text_of(seq, bytes));
  }
  static void expect_loss(SpoolLog& log, std::uint64_t first, std::uint64_t last, LossCause cause) {
    const auto item = log.read(first);
    ASSERT_TRUE(item.has_value()) << first << log.error();
    EXPECT_EQ(item->message, "");
    EXPECT_EQ(item->cause, cause);
    EXPECT_EQ(item->first_seq, first);
    EXPECT_EQ(item->last_seq, last);
  }

  fs::path root_;
  SpoolOptions options_;
};

}  // namespace scalewatch::client
