// Logs that are a whole file: tables, JSON documents, TensorBoard's event files.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "tests/unit/logimport/read_records.h"

namespace scalewatch::logimport {
namespace {

TEST(Csv, RowsHoldWhatTheirCellsHold) {
  const std::string text =
      "epoch,step,train_loss_step,train_loss_epoch,val_loss,lr-AdamW,note\n"
      "0,49,1.25,,,0.001,\"a, b\"\n0,99,nan,,,0.001,\n0,99,,1.40,,,\n0,99,,,1.5,,\n";
  for (const std::size_t chunk : {std::size_t{1000}, std::size_t{1}, std::size_t{7}}) {
    const auto readings = read_text(text, {}, chunk);
    ASSERT_EQ(readings.size(), 4U);
    EXPECT_EQ(readings[0].format, "csv");
    EXPECT_EQ(readings[0].line, 2U);
    EXPECT_EQ(readings[0].step, 49);
    EXPECT_EQ(readings[0].lr, 0.001);
    EXPECT_TRUE(std::isnan(*readings[1].loss));
    EXPECT_EQ(readings[2].loss_span, Reading::Span::kTotal);
    EXPECT_EQ(readings[3].valid_loss, 1.5);
    EXPECT_FALSE(readings[3].loss);
  }
}

TEST(Csv, ATrainingLossNeedsNoPlace) {
  const auto readings = read_text("train_loss\ttrain_EPE\tEPE\n14.5\t27.55\t21.5\nnan\t19.75\t18.75\n");
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings[0].format, "csv");
  EXPECT_EQ(readings[0].loss, 14.5);
  EXPECT_TRUE(std::isnan(*readings[1].loss));
  EXPECT_TRUE(read_text("loss\tamount\tclaims\n14.5\t27.5\t21.5\n15.5\t20\t1\n").empty());
}

TEST(Csv, OtherTablesAreNone) {
  EXPECT_TRUE(read_text("name,step,price\nbolt,3,0.5\nnut,4,0.25\n").empty());
  EXPECT_TRUE(read_text("date,loss,region\n2024-01-02,12.5,north\n").empty());
}

TEST(TrainerState, LogHistoryIsRead) {
  const std::string text = R"({
  "best_metric": null, "epoch": 2.0, "global_step": 200, "is_world_process_zero": true,
  "log_history": [
    {"epoch": 0.5, "grad_norm": NaN, "learning_rate": 1e-05, "loss": 2.5, "step": 50},
    {"epoch": 1.0, "eval_loss": 2.25, "eval_runtime": 3.0, "step": 100},
    {"epoch": 2.0, "step": 200, "train_loss": 2.0, "train_runtime": 99.0}
  ],
  "max_steps": 200, "trial_params": null
})";
  for (const std::size_t chunk : {std::size_t{1000}, std::size_t{3}}) {
    const auto readings = read_text(text, {}, chunk);
    ASSERT_EQ(readings.size(), 3U);
    EXPECT_EQ(readings[0].format, "trainer_state_json");
    EXPECT_EQ(readings[0].line, 4U);
    EXPECT_EQ(readings[0].step, 50);
    EXPECT_EQ(readings[0].loss, 2.5);
    EXPECT_EQ(readings[0].loss_span, Reading::Span::kInterval);
    EXPECT_TRUE(std::isnan(*readings[0].grad_norm));
    EXPECT_EQ(readings[1].valid_loss, 2.25);
    EXPECT_EQ(readings[2].kind, Reading::Kind::kEnd);
    EXPECT_FALSE(readings[2].loss);
  }
}

// Lists within a record, and what newer versions write behind the history.
TEST(TrainerState, OtherListsAndCallbacksHideNothing) {
  const auto readings = read_text(R"({
  "global_step": 30,
  "log_history": [
    {"epoch": 0.1, "loss": 2.5, "learning_rate": 1e-05, "step": 10, "lengths": [3, 4, {"loss": 9.0, "step": 1}]},
    {"epoch": 0.2, "loss": 2.4, "learning_rate": 1e-05, "step": 20, "total_flos": 1.5e+17},
    {"epoch": 0.2, "loss": 2.3, "learning_rate": 1e-05, "step": 20},
    {"epoch": 0.3, "eval_loss": NaN, "eval_runtime": 3.0, "step": 30}
  ],
  "stateful_callbacks": {"TrainerControl": {"args": {"loss": 7.0, "step": 5}, "loss": 8.0, "step": 6, "attributes": {}}}
})");
  ASSERT_EQ(readings.size(), 4U);
  EXPECT_EQ(readings[0].step, 10);
  EXPECT_EQ(readings[0].loss, 2.5);
  EXPECT_EQ(readings[1].step, 20);
  EXPECT_EQ(readings[2].loss, 2.3);
  EXPECT_TRUE(std::isnan(*readings[3].valid_loss));
}

TEST(JsonArray, RecordsAreReadAndProseIsNot) {
  const auto readings =
      read_text(R"([{"epoch": 1, "train_loss": 0.5, "note": "step 7 loss: 9"}, {"epoch": 2, "train_loss": 0.25}])");
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings[0].loss, 0.5);
  EXPECT_FALSE(readings[0].step);
  EXPECT_TRUE(read_text(R"([{"id": "a", "text": "at step 7 the loss: 9"}, {"id": "b", "text": "x"}])").empty());
}

// ---- TensorBoard

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t c = ~0U;
  for (const char byte : bytes) {
    c ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? (c >> 1) ^ 0x82f63b78U : c >> 1;
  }
  return ~c;
}

template <class T>
std::string little(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
  return out;
}

std::string masked(std::string_view bytes) {
  return little(std::rotr(crc32c(bytes), 15) + 0xa282ead8U);
}

std::string record(const std::string& data) {
  const std::string length = little(static_cast<std::uint64_t>(data.size()));
  return length + masked(length) + data + masked(data);
}

std::string scalar(std::int64_t step, const char* tag, float value, bool as_tensor) {
  std::string data;
  protozero::pbf_writer event(data);
  event.add_double(1, 1.7e9);
  event.add_int64(2, step);
  protozero::pbf_writer summary(event, 5);
  protozero::pbf_writer entry(summary, 1);
  entry.add_string(1, tag);
  if (as_tensor) {
    protozero::pbf_writer tensor(entry, 8);
    tensor.add_uint32(1, 1);
    tensor.add_bytes(4, little(std::bit_cast<std::uint32_t>(value)));
  } else {
    entry.add_float(2, value);
  }
  return data;
}

TEST(TensorBoard, ScalarsOfAStepAreOneReading) {
  std::string file;
  {
    std::string version;
    protozero::pbf_writer event(version);
    event.add_double(1, 1.7e9);
    event.add_string(3, "brain.Event:2");
    file += record(version);
  }
  for (const std::int64_t step : {10, 20}) {
    file += record(scalar(step, "train/loss", 2.5F, false)) + record(scalar(step, "amp/scale", 1024.0F, true)) +
            record(scalar(step, "train/grad_norm", std::numeric_limits<float>::quiet_NaN(), step == 20));
  }
  const std::string torn = file + record(scalar(30, "train/loss", 2.0F, false)).substr(0, 30);
  for (const std::size_t chunk : {std::size_t{1000}, std::size_t{1}}) {
    const auto readings = read_text(torn, {}, chunk);
    ASSERT_EQ(readings.size(), 2U);
    EXPECT_EQ(readings[1].format, "tensorboard");
    EXPECT_EQ(readings[1].step, 20);
    EXPECT_EQ(readings[1].loss, 2.5);
    EXPECT_EQ(readings[1].scale, 1024);
    EXPECT_TRUE(std::isnan(*readings[1].grad_norm));
    EXPECT_EQ(readings[1].time_ms, 1700000000000);
  }
  std::string damaged = file;
  damaged[3] ^= 1;  // in the first header: no event file then
  EXPECT_TRUE(read_text(damaged).empty());
}

}  // namespace
}  // namespace scalewatch::logimport
