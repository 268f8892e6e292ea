// Columns packed and read back, value by value.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "server/history/packed_column.h"

namespace scalewatch::history {
namespace {

std::string packed(const std::vector<std::uint64_t>& bits, NumberKind kind) {
  std::string out = "before";
  pack_column(bits, kind, out);
  return out.substr(6);
}

void expect_kept(const std::vector<std::uint64_t>& bits, NumberKind kind) {
  const std::string bytes = packed(bits, kind) + "behind";
  std::string_view rest = bytes;
  PackedColumn column;
  ASSERT_TRUE(column.open(rest, bits.size(), kind));
  EXPECT_EQ(rest, "behind");
  std::vector<std::uint64_t> all(bits.size());
  column.unpack(all);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(column.at(i), bits[i]) << i << " of " << bits.size();
    ASSERT_EQ(all[i], bits[i]) << i << " of " << bits.size();
  }
}

std::uint64_t of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
std::uint64_t of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

TEST(PackedColumn, KeepsRandomColumnsOfEveryKindAndLength) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 600; ++round) {
    const std::size_t size = 1 + random() % kMaxColumn;
    const unsigned width = random() % 65;
    const std::uint64_t mask = width == 64 ? UINT64_MAX : (std::uint64_t{1} << width) - 1;
    std::vector<std::uint64_t> integers;
    std::vector<std::uint64_t> floats;
    std::vector<std::uint64_t> doubles;
    for (std::size_t i = 0; i < size; ++i) {
      const bool outlier = random() % 16 == 0;
      integers.push_back(outlier ? random() : 1000 + (random() & mask));
      floats.push_back(outlier ? random() & 0xffffffff : of(static_cast<float>(static_cast<double>(random() % 2048) - 900)));
      doubles.push_back(outlier ? random() : of(std::ldexp(static_cast<double>(random() % (1 << 24)), -30)));
    }
    expect_kept(integers, NumberKind::kInteger);
    expect_kept(floats, NumberKind::kFloat);
    expect_kept(doubles, NumberKind::kDouble);
  }
}

TEST(PackedColumn, KeepsTheSignOfZeroAndTheEdges) {
  const float inf = std::numeric_limits<float>::infinity();
  expect_kept({of(0.0F), of(-0.0F), of(1.0F), of(-inf), of(inf), of(std::numeric_limits<float>::quiet_NaN())},
              NumberKind::kFloat);
  expect_kept({of(-0.0), of(-1.5), of(-std::numeric_limits<double>::max())}, NumberKind::kDouble);
  expect_kept({of(0.0), of(0.0)}, NumberKind::kDouble);
  expect_kept({0, UINT64_MAX}, NumberKind::kInteger);
}

TEST(PackedColumn, OneOutlierAndAFewZerosDoNotWidenTheRest) {
  std::vector<std::uint64_t> halves;
  std::mt19937 random(3);
  for (int i = 0; i < 128; ++i) halves.push_back(of(static_cast<float>(1024 + random() % 1024) / 1024));
  const std::size_t usual = packed(halves, NumberKind::kFloat).size();
  EXPECT_LE(usual, 128 * 10 / 8 + 8U);  // ten bits of mantissa, whatever float carries
  halves[17] = of(61440.0F);
  halves[90] = 0;
  halves[91] = 0;
  EXPECT_LE(packed(halves, NumberKind::kFloat).size(), usual + 40);
  EXPECT_LE(packed(std::vector<std::uint64_t>(128, of(65536.0)), NumberKind::kDouble).size(), 5U);
}

TEST(PackedColumn, BytesThatEndEarlyAreNoColumn) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 100; ++i) values.push_back(i == 50 ? UINT64_MAX : i * i);
  const std::string bytes = packed(values, NumberKind::kInteger);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::string_view rest(bytes.data(), size);
    PackedColumn column;
    EXPECT_FALSE(column.open(rest, values.size(), NumberKind::kInteger)) << size;
  }
}

}  // namespace
}  // namespace scalewatch::history
