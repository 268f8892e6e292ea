// Row ids of stretches, chunks and summaries (see FORMAT.md, "Keys").
#pragma once

#include <cstdint>

namespace scalewatch::history {

// What fits: streams, stretches of a stream, chunks side by side.
inline constexpr std::int64_t kMaxStream = (std::int64_t{1} << 23) - 1;
inline constexpr std::int64_t kMaxStretch = (std::int64_t{1} << 20) - 1;
inline constexpr std::int64_t kMaxBlock = (std::int64_t{1} << 20) - 1;

inline std::int64_t stretch_key(std::int64_t stream, std::int64_t number) {
  return stream << 20 | number;
}
inline std::int64_t chunk_key(std::int64_t stream, std::int64_t number, std::int64_t block) {
  return stream << 40 | number << 20 | block;
}
inline std::int64_t summary_key(std::int64_t stream, std::int64_t block, std::int64_t number) {
  return stream << 40 | block << 20 | number;
}

// Of a tensor's scores; ids beyond kMaxScored have none.
inline constexpr std::uint32_t kScoreTensors = 16;  // of a row
inline constexpr std::uint32_t kMaxScored = (1U << 24) - 1;
inline std::int64_t scores_key(std::int64_t stream, std::int64_t number, std::uint32_t id) {
  return stream << 40 | number << 20 | id / kScoreTensors;
}

}  // namespace scalewatch::history
