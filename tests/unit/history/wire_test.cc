// Protobuf's encoding by hand: what it writes Protobuf reads, and what is no message is refused.
#include <gtest/gtest.h>

#include "scalewatch/v1/history.pb.h"
#include "server/history/wire.h"

namespace scalewatch::history::wire {
namespace {

TEST(Wire, WhatIsWrittenIsReadByProtobuf) {
  v1::AttemptSummary inner;
  inner.set_loss(0.5);
  std::string bytes;
  put_message(v1::GetAttemptResponse::kAttemptFieldNumber, inner, bytes);
  put_bytes(v1::GetAttemptResponse::kNextPageTokenFieldNumber, "next", bytes);
  v1::GetAttemptResponse response;
  ASSERT_TRUE(response.ParseFromString(bytes));
  EXPECT_EQ(response.attempt().loss(), 0.5);
  EXPECT_EQ(response.next_page_token(), "next");

  bytes.clear();
  put_number(v1::AttemptSummary::kSegmentFieldNumber, 300, bytes);
  put_number(v1::AttemptSummary::kStepFieldNumber, -1, bytes);
  put_number(v1::AttemptSummary::kTimeMsFieldNumber, 0, bytes);
  v1::AttemptSummary summary;
  ASSERT_TRUE(summary.ParseFromString(bytes));
  EXPECT_EQ(summary.segment(), 300U);
  EXPECT_EQ(summary.step(), -1);
  summary.clear_segment();
  summary.clear_step();
  EXPECT_EQ(summary.ByteSizeLong(), 0U);
}

TEST(Wire, FieldsOfAllKindsAreTaken) {
  std::string bytes("\x08\x96\x01", 3);  // 1: varint
  bytes += std::string(
      "\x11"
      "12345678",
      9);                                 // 2: fixed64
  bytes += std::string("\x1a\x02hi", 4);  // 3: two bytes
  bytes += std::string(
      "\x25"
      "1234",
      5);  // 4: fixed32
  std::string_view rest = bytes;
  Field field;
  for (int number = 1; number <= 4; ++number) {
    ASSERT_TRUE(take(rest, field)) << number;
    EXPECT_EQ(field.number, number);
    EXPECT_EQ(field.content, number == 3 ? "hi" : "");
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(field.size, 5U);
  // Cut anywhere, the last field of what is left is refused.
  for (const std::size_t size : {1U, 2U, 4U, 11U, 13U, 15U, 17U, 20U}) {
    rest = std::string_view(bytes).substr(0, size);
    bool whole = true;
    while (whole && !rest.empty()) whole = take(rest, field);
    EXPECT_FALSE(whole) << size;
  }
}

TEST(Wire, WhatIsNoFieldIsRefused) {
  for (const std::string_view bytes : {std::string_view("\x0b", 1),                                           // a group
                                       std::string_view("\x02\x00", 2),                                       // field 0
                                       std::string_view("\x0e\x00", 2),                                       // no such type
                                       std::string_view("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),  // too long
                                       std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11)}) {
    std::string_view rest = bytes;
    Field field;
    EXPECT_FALSE(take(rest, field)) << bytes.size();
  }
}

}  // namespace
}  // namespace scalewatch::history::wire
