// Where a chunk's frames lie.
#include "server/history/chunk.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace scalewatch::history {
namespace {

// As many as there were tensors when it was made; a frame's own bytes may look like offsets.
TEST(Chunk, HasNoFramesBehindItsLastOne) {
  std::string like_offsets;
  for (std::uint32_t offset = 16; offset < 416; offset += 4) {
    std::array<char, sizeof offset> bytes{};
    std::memcpy(bytes.data(), &offset, sizeof offset);
    like_offsets.append(bytes.data(), bytes.size());
  }
  const std::array<std::string, 3> frames = {like_offsets, "", "last"};
  const std::string blob = join_frames(frames);
  ASSERT_GT(blob.size(), 400U);
  for (std::size_t tensor = 0; tensor < kChunkTensors; ++tensor) {
    EXPECT_EQ(frame_of(blob, tensor), tensor < frames.size() ? frames.at(tensor) : "") << tensor;
  }
  EXPECT_EQ(seal_of_chunk(blob), Seal::kWhole);
}

}  // namespace
}  // namespace scalewatch::history
