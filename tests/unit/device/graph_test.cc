// Launches that a CUDA graph captured: nothing is measured while it is captured, each replay is told apart.
#include <limits>

#include "tests/unit/device/rig.h"

namespace scalewatch::cuda {
namespace {

class Graphs : public Rig {
 protected:
  Graphs() : measurer_(driver_, 0), current_(measurer_.device()) {}

  // Captures the measurement of one tensor.
  int capture(Graph*& graph) {
    const device::TensorDesc tensor = describe(data_, DType::kFp32, DType::kFp16, scale_.address());
    const device::ScalarSource scalar{scale_.address(), device::kScalarFloat, 0};
    const Work work{{&tensor, 1}, {}, {&scalar, 1}};
    fake_cuda::begin_capture(on_);
    EXPECT_EQ(measurer_.capturing(on_), Measurer::Capture::kYes);
    graph = measurer_.record(on_, 1, work.packet_bytes(), work.chunks());
    EXPECT_NE(graph, nullptr);
    EXPECT_TRUE(measurer_.launch(*graph, work, true));
    return fake_cuda::end_capture(on_);
  }
  void replay(int graph, float value, float scale) {
    fake_cuda::enqueue(on_, [=, this] {
      data_.as<float>()[0] = value;
      scale_.as<float>()[0] = scale;
    });
    fake_cuda::replay(graph, on_);
  }
  Batch* collect(Graph& graph) {
    Batch* batch = measurer_.collect(graph, on_);
    if (batch == nullptr) return nullptr;
    batch->record_tags.resize(1);
    batch->scalar_tags.resize(1);
    fake_cuda::run_all();
    EXPECT_EQ(batch->poll(), Batch::Ready::kYes);
    return batch;
  }

  OnGpu data_{0, std::vector<float>{1, 2, 3}};
  OnGpu scale_{0, std::vector<float>{1}};
  Stream on_ = stream();
  Measurer measurer_;
  const Device::Current current_;
};

TEST_F(Graphs, EachReplayIsOneBlock) {
  Graph* graph = nullptr;
  const int captured = capture(graph);
  Batch* none = collect(*graph);
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->take_blocks(), 0U);  // captured, and not run
  none->give_back();
  replay(captured, 10, 2);
  replay(captured, std::numeric_limits<float>::infinity(), 4);
  Batch* two = collect(*graph);
  ASSERT_EQ(two->take_blocks(), 2U);
  EXPECT_EQ(two->record(0, 0).sum, 15);
  EXPECT_EQ(two->scalar(0, 0), 2);
  EXPECT_EQ(two->record(1, 0).pos_inf, 1U);
  EXPECT_EQ(two->scalar(1, 0), 4);
  EXPECT_EQ(two->lost_blocks(), 0U);
  two->give_back();
  replay(captured, 20, 1);
  Batch* third = collect(*graph);
  ASSERT_EQ(third->take_blocks(), 1U);  // only what is new
  EXPECT_EQ(third->record(0, 0).sum, 25);
  expect_no_waiting();
}

TEST_F(Graphs, ReplaysBeyondTheRingAreCounted) {
  Graph* graph = nullptr;
  const int captured = capture(graph);
  for (int i = 1; i <= 11; ++i) replay(captured, static_cast<float>(i), 1);
  Batch* batch = collect(*graph);
  ASSERT_EQ(batch->take_blocks(), Graph::kSlots);
  EXPECT_EQ(batch->lost_blocks(), 11 - Graph::kSlots);
  for (std::uint32_t i = 0; i < Graph::kSlots; ++i) {
    EXPECT_EQ(batch->record(i, 0).sum, 5 + (11 - Graph::kSlots) + i + 1);
  }
}

TEST_F(Graphs, CollectionsOnTheirWayAreBounded) {
  Graph* graph = nullptr;
  capture(graph);
  for (std::size_t i = 0; i < Graph::kCopies; ++i) EXPECT_NE(measurer_.collect(*graph, on_), nullptr);
  EXPECT_EQ(measurer_.collect(*graph, on_), nullptr);
  EXPECT_FALSE(measurer_.device().quiet());
}

// It may be replayed at any time: what it uses is not freed.
TEST_F(Graphs, OutlivesTheMeasurer) {
  Graph* graph = nullptr;
  auto measurer = std::make_unique<Measurer>(driver_, 0);
  const Stream other = stream();
  const device::TensorDesc tensor = describe(data_, DType::kFp32);
  const Work work{{&tensor, 1}, {}, {}};
  fake_cuda::begin_capture(other);
  graph = measurer->record(other, 1, work.packet_bytes(), work.chunks());
  ASSERT_NE(graph, nullptr);
  ASSERT_TRUE(measurer->launch(*graph, work, true));
  const int captured = fake_cuda::end_capture(other);
  measurer.reset();
  fake_cuda::replay(captured, other);
  fake_cuda::run_all();  // the rig finds misuse
}

}  // namespace
}  // namespace scalewatch::cuda
