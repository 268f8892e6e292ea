#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "server/engine/attempt_closer.h"
#include "server/engine/hello.h"
#include "server/engine/input_codec.h"
#include "server/engine/report_codec.h"
#include "server/engine/text.h"

namespace scalewatch::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Hello good_hello() {
  v1::Hello hello;
  hello.set_protocol_version(1);
  hello.set_run("resnet50");
  hello.set_world_size(2);
  hello.set_incarnation(std::string(16, 'x'));
  hello.add_scalers()->set_name("default");
  hello.mutable_scalers(0)->set_policy("pytorch");
  hello.add_optimizers()->set_name("adam");
  return hello;
}

TEST(Hello, NamesWhatIsWrong) {
  EXPECT_EQ(hello_fault(good_hello(), 100), "");
  const auto fault = [](auto change) {
    v1::Hello hello = good_hello();
    change(hello);
    return hello_fault(hello, 100);
  };
  EXPECT_THAT(fault([](auto& h) { h.set_protocol_version(0); }), HasSubstr("protocol_version"));
  EXPECT_THAT(fault([](auto& h) { h.set_run(""); }), HasSubstr("is empty"));
  EXPECT_THAT(fault([](auto& h) { h.set_run("a\nb"); }), HasSubstr("control character"));
  EXPECT_THAT(fault([](auto& h) { h.set_run(std::string(257, 'a')); }), HasSubstr("longer than 256"));
  EXPECT_THAT(fault([](auto& h) { h.set_rank(2); }), HasSubstr("rank 2"));
  EXPECT_THAT(fault([](auto& h) { h.set_world_size(101); }), HasSubstr("world_size 101"));
  EXPECT_THAT(fault([](auto& h) { h.set_incarnation("short"); }), HasSubstr("5 bytes"));
  EXPECT_THAT(fault([](auto& h) { (*h.mutable_labels())["bad-name"] = "x"; }), HasSubstr("label"));
  EXPECT_THAT(fault([](auto& h) {
                for (int i = 0; i < 33; ++i) (*h.mutable_labels())["l" + std::to_string(i)] = "x";
              }),
              HasSubstr("33 labels"));
  EXPECT_THAT(fault([](auto& h) { (*h.mutable_scalers(0)->mutable_parameters())["init_scale"] = NAN; }),
              HasSubstr("not finite"));
  EXPECT_THAT(fault([](auto& h) { h.mutable_optimizers(0)->set_scaler(1); }), HasSubstr("scaler 1"));
}

TEST(Table, OnlyGrowsAndStaysWithinLimits) {
  v1::Limits limits;
  limits.set_max_tensors(3);
  limits.set_max_name_bytes(10);
  const auto delta = [](std::uint32_t first, std::initializer_list<std::string> names) {
    v1::TableDelta out;
    out.set_first_id(first);
    for (const auto& name : names) {
      auto* info = out.add_infos();
      info->set_name(name);
      info->set_role(v1::ROLE_GRADIENT);
    }
    return out;
  };
  domain::TensorTable table;
  EXPECT_EQ(append_table(table, delta(0, {"a", "b"}), limits), "");
  EXPECT_EQ(append_table(table, delta(0, {"a", "b", "c"}), limits), "");
  EXPECT_EQ(table.size(), 3U);
  EXPECT_THAT(append_table(table, delta(0, {"a", "x"}), limits), HasSubstr("only grows"));
  EXPECT_THAT(append_table(table, delta(3, {"d"}), limits), HasSubstr("at most 3"));
  EXPECT_THAT(append_table(table, delta(4, {}), limits), HasSubstr("begins at id 4"));
  domain::TensorTable other;
  EXPECT_THAT(append_table(other, delta(0, {"quite_long_name"}), limits), HasSubstr("longer than 10"));
  EXPECT_THAT(append_table(other, delta(0, {"bad\x7F"}), limits), HasSubstr("control"));
  EXPECT_TRUE(other.empty());
}

TEST(Report, NamesWhatIsWrong) {
  domain::TensorTable table(3);
  for (auto& info : table) info.role = Role::kGradient;
  table[2].role = Role::kParameter;
  const auto good = [] {
    v1::Report report;
    report.set_attempt(1);
    auto* block = report.add_blocks();
    block->set_role(v1::ROLE_GRADIENT);
    block->set_count(2);
    for (int i = 0; i < 2; ++i) {
      block->add_min(0);
      block->add_max(0);
      block->add_absmin_nonzero(0);
      block->add_sum(0);
      block->add_sum_sq(0);
    }
    return report;
  };
  EXPECT_EQ(report_fault(good(), good_hello(), table), "");
  const auto fault = [&](auto change) {
    v1::Report report = good();
    change(report, *report.mutable_blocks(0));
    return report_fault(report, good_hello(), table);
  };
  EXPECT_THAT(fault([](auto& r, auto&) { r.set_attempt(0); }), HasSubstr("attempt 0"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.set_first_id(2); }), HasSubstr("not within the table of 3"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.set_first_id(1); }), HasSubstr("not of role"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.set_count(0xFFFFFFFF); }), HasSubstr("not within the table"));
  EXPECT_THAT(fault([](auto&, auto& b) {
                b.add_ids(1);
                b.add_ids(1);
              }),
              HasSubstr("not above"));
  EXPECT_THAT(fault([](auto&, auto& b) {
                b.add_ids(0);
                b.add_ids(9);
              }),
              HasSubstr("ids: 9"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.add_ids(0); }), HasSubstr("count 2"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.add_sum(0); }), HasSubstr("column sum has 3"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.add_zero(0); }), HasSubstr("column zero has 1"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.set_measured_under_scale(NAN); }), HasSubstr("measured_under_scale"));
  EXPECT_THAT(fault([](auto&, auto& b) { b.add_nan()->set_index(2); }), HasSubstr("nan: index 2"));
  EXPECT_THAT(fault([](auto& r, auto&) { r.add_scalers()->set_scaler(1); }), HasSubstr("scaler 1"));
  EXPECT_THAT(fault([](auto& r, auto&) { r.add_scalers()->add_optimizers()->set_optimizer(4); }), HasSubstr("optimizer 4"));
}

TEST(InputCodec, BringsBackEveryKind) {
  Incarnation incarnation{};
  incarnation[3] = 0xAB;
  domain::RankJoined joined;
  joined.rank = 3;
  joined.world_size = 8;
  joined.host = "node \"7\"";
  joined.scalers = {{"default", "pytorch", {{"init_scale", 65536.0}}}};
  joined.optimizers = {{"adam", "Adam", 0, 1e-3, true, 1e-8, {DType::kFp16, DType::kFp32}}};
  auto rules = std::make_shared<domain::Thresholds>();
  rules->off = {"ScaleDrift"};
  rules->vanished_below = 0.1;
  rules->stalled_after_ms = 5'000'000'000;
  for (const LoggedInput& input :
       std::initializer_list<LoggedInput>{{domain::SegmentOpened{2, 5}, {}},
                                          {joined, incarnation},
                                          {domain::RankLeft{1, "finished", 7}, incarnation},
                                          {domain::AttemptClosed{9, {1, 2}, 8}, {}},
                                          {domain::AttemptClosed{9, {}, 8}, {}, 4},
                                          {domain::RulesChanged{rules, {}, 8}, {}},
                                          {domain::RulesChanged{rules, 3, 8}, incarnation},
                                          {domain::Liveness{{{0, 1, true}, {1, 2, false, domain::Phase::kEval}}, 9, 700}, {}},
                                          {domain::ReportsLost{1, 2, 3, domain::LossCause::kSpoolLimit, 4}, incarnation},
                                          {domain::ServerLag{7000, true, "disk full", 9}, {}},
                                          {domain::Acknowledged{"Rule/x", "me", "héllo\"", 6}, {}}}) {
    const std::string text = encode_input(input);
    const LoggedInput back = decode_input(text);
    EXPECT_EQ(encode_input(back), text);
    EXPECT_EQ(back.input.index(), input.input.index());
    EXPECT_EQ(back.incarnation, input.incarnation);
    EXPECT_EQ(back.segment, input.segment);
    if (const auto* changed = std::get_if<domain::RulesChanged>(&back.input)) {
      EXPECT_EQ(*changed->rules, *rules);
    }
  }
  EXPECT_THROW(decode_input("{\"kind\":\"unheard_of\"}"), std::runtime_error);
  EXPECT_THROW(decode_input("not json"), std::runtime_error);
  EXPECT_THROW(decode_input("{\"kind\":\"rank_left\"}"), std::runtime_error);
}

TEST(Text, ChecksUtf8) {
  EXPECT_EQ(name_fault("schöne_schicht.层", 512), "");
  EXPECT_EQ(name_fault("\xC0\x80", 512), "is not valid UTF-8");          // overlong
  EXPECT_EQ(name_fault("\xED\xA0\x80", 512), "is not valid UTF-8");      // surrogate
  EXPECT_EQ(name_fault("\xF4\x90\x80\x80", 512), "is not valid UTF-8");  // above U+10FFFF
  EXPECT_EQ(name_fault("cut \xE5\xB1", 512), "is not valid UTF-8");
  EXPECT_EQ(name_fault("\xC2\x85", 512), "has a control character");  // C1
  EXPECT_EQ(clipped("añb", 2), "a");
  EXPECT_EQ(shown("a\x1b[31m"), "a?[31m");
  EXPECT_EQ(incarnation_from_hex(to_hex(Incarnation{1, 2, 255})), (Incarnation{1, 2, 255}));
}

TEST(AttemptCloser, ClosesInOrderByRanksLeadAndTime) {
  AttemptCloser closer(3, 2'000);
  const std::set<domain::Rank> live{0, 1};
  closer.note(1, 0, 0);
  EXPECT_TRUE(closer.due(live, 0).empty());
  closer.note(1, 1, 10);
  ASSERT_EQ(closer.due(live, 10).size(), 1U);
  closer.close(1);
  EXPECT_FALSE(closer.note(1, 1, 20)) << "a late report reopens nothing";

  closer.note(2, 0, 100);
  closer.note(4, 0, 100);
  EXPECT_TRUE(closer.due(live, 100).empty());
  closer.note(5, 0, 100);  // three ahead of 2
  auto due = closer.due(live, 100);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].attempt, 2U);
  EXPECT_THAT(due[0].missing, ElementsAre(1));
  closer.close(2);

  due = closer.due(live, 2'100);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].attempt, 4U);
  EXPECT_EQ(due[1].attempt, 5U);
  EXPECT_EQ(closer.due({0}, 100).size(), 2U) << "a rank that left is waited for no more";
}

}  // namespace
}  // namespace scalewatch::engine
