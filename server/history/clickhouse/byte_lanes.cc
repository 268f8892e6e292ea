#include "server/history/clickhouse/byte_lanes.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace scalewatch::clickhouse {

namespace {

constexpr std::size_t kLanes = 8;

// Rows of 8 bytes become columns: halves change places, then quarters, then bytes.
void transpose(std::array<std::uint64_t, kLanes>& rows) {
  constexpr std::array<std::uint64_t, 3> kKept = {0x00000000ffffffff, 0x0000ffff0000ffff, 0x00ff00ff00ff00ff};
  std::size_t step = kLanes / 2;
  for (const std::uint64_t kept : kKept) {
    for (std::size_t row = 0; row < kLanes; ++row) {
      if ((row & step) != 0) continue;
      const std::uint64_t moved = ((rows[row] >> (8 * step)) ^ rows[row + step]) & kept;
      rows[row + step] ^= moved;
      rows[row] ^= moved << (8 * step);
    }
    step /= 2;
  }
}

// Takes 8 words that lie `in` apart to where they lie `out` apart, for each 64 bytes; the rest of each lane byte by byte.
template <bool ToLanes>
std::string moved(std::string_view from) {
  const std::size_t in_lane = from.size() / kLanes;
  std::string to(from);  // with what is left of the last 8
  std::size_t done = 0;
  for (; done + kLanes <= in_lane; done += kLanes) {
    std::array<std::uint64_t, kLanes> rows;
    const auto place = [&](bool in_order, std::size_t row) { return in_order ? (done + row) * kLanes : row * in_lane + done; };
    for (std::size_t row = 0; row < kLanes; ++row) std::memcpy(&rows[row], from.data() + place(ToLanes, row), kLanes);
    transpose(rows);
    for (std::size_t row = 0; row < kLanes; ++row) std::memcpy(to.data() + place(!ToLanes, row), &rows[row], kLanes);
  }
  for (; done < in_lane; ++done) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t in_order = done * kLanes + lane;
      const std::size_t in_lanes = lane * in_lane + done;
      to[ToLanes ? in_lanes : in_order] = from[ToLanes ? in_order : in_lanes];
    }
  }
  return to;
}

}  // namespace

std::string to_lanes(std::string_view bytes) {
  return moved<true>(bytes);
}

std::string from_lanes(std::string_view lanes) {
  return moved<false>(lanes);
}

std::string read_payload(RowReader& row) {
  const std::string_view payload = row.text();
  return row.get<std::uint8_t>() != 0 ? from_lanes(payload) : std::string(payload);
}

}  // namespace scalewatch::clickhouse
