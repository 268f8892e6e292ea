#include "client_lib/src/text.h"

#include <gtest/gtest.h>

#include "client_lib/src/unpack.h"
#include "scalewatch/v1/ingest.pb.h"

namespace scalewatch::client {
namespace {

TEST(Text, CleanUtf8) {
  for (const char* good : {"", "layers.3.attn.qkv.weight", "\"quoted\"", "größe", "重み", "\xF0\x9F\x94\xA5"}) {
    EXPECT_TRUE(is_clean_utf8(good)) << good;
  }
  for (const char* bad :
       {"a\nb", "\x7f", "\xc2\x85", "\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_FALSE(is_clean_utf8(bad)) << bad;
  }
}

TEST(Text, ServerAddress) {
  for (const char* good : {"127.0.0.1:7462", "host:1", "[::1]:65535", "unix:/run/scalewatch.sock"}) {
    EXPECT_TRUE(is_server_address(good)) << good;
  }
  for (const char* bad :
       {"", "host", "host:", ":7462", "host:0", "host:65536", "host:12x", "::1:7462", "http://host:1", "ho st:1", "unix:"}) {
    EXPECT_FALSE(is_server_address(bad)) << bad;
  }
}

TEST(Unpack, ReadsWhatItKnowsAndPassesOverTheRest) {
  v1::ServerMessage message;
  auto& ack = *message.mutable_hello_ack();
  ack.set_resume_after_seq(41);
  ack.set_need_table(true);
  ack.set_run_uid("uid");
  ack.mutable_limits()->set_max_tensors(5);
  ack.mutable_limits()->set_max_message_bytes(1000);
  ack.set_server_time_ms(99);
  auto& said = *ack.add_directives();
  said.set_id("d");
  said.add_tensors("w*");
  said.add_roles(v1::ROLE_GRADIENT);
  said.add_roles(v1::ROLE_BUFFER);
  said.set_until_attempt(7);
  said.set_expires_ms(11);
  said.set_every(3);
  said.set_report_every(4294967295U);
  said.set_send_ring(true);
  const auto hello = std::get<HelloAck>(unpack(message.SerializeAsString()).value());
  EXPECT_EQ(hello.resume_after_seq, 41U);
  EXPECT_TRUE(hello.need_table);
  EXPECT_EQ(hello.max_message_bytes, 1000U);
  EXPECT_EQ(hello.server_time_ms, 99);
  ASSERT_EQ(hello.directives.size(), 1U);
  const Directive& directive = hello.directives[0];
  EXPECT_EQ(directive.id, "d");
  EXPECT_EQ(directive.tensors, std::vector<std::string>{"w*"});
  EXPECT_EQ(directive.roles, (std::vector<std::int32_t>{1, 6}));
  EXPECT_EQ(directive.until_attempt, 7U);
  EXPECT_EQ(directive.expires_ms, 11);
  EXPECT_EQ(directive.every, 3U);
  EXPECT_EQ(directive.report_every, 4294967295U);
  EXPECT_TRUE(directive.send_ring);
  EXPECT_FALSE(directive.stop);

  message.mutable_fault()->set_cause(v1::FAULT_CAUSE_FENCED);
  message.mutable_fault()->set_message("newer");
  EXPECT_EQ(std::get<Fault>(unpack(message.SerializeAsString()).value()).cause, FaultCause::kFenced);

  EXPECT_TRUE(std::holds_alternative<std::monostate>(unpack("").value()));
  EXPECT_FALSE(unpack("\x0a\x7f").has_value());
}

}  // namespace
}  // namespace scalewatch::client
