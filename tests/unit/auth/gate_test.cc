#include "server/auth/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/auth/token.h"

namespace scalewatch::auth {
namespace {

using engine::Status;
using ::testing::HasSubstr;
using ::testing::Not;

class GateTest : public ::testing::Test {
 protected:
  GateTest() { std::filesystem::create_directory(folder_); }
  ~GateTest() override { std::filesystem::remove_all(folder_); }

  // Adds a token and returns the header that shows it.
  std::string add(const std::vector<std::string>& scopes, TokenLimits limits = {}, std::int64_t expires_ms = 0) {
    const TokenText token = make_token();
    TokenRecord record;
    record.id = last_id_ = token.id;
    record.name = "test";
    record.hash = hash_of(token);
    for (const std::string& scope : scopes) EXPECT_TRUE(record.scopes.add(scope));
    record.limits = limits;
    record.expires_ms = expires_ms;
    edit_tokens(file_, [&](auto& tokens) { tokens.push_back(record); });
    return "Bearer " + to_text(token);
  }
  void remove(const std::string& id) {
    edit_tokens(file_, [&](auto& tokens) { std::erase_if(tokens, [&](const auto& token) { return token.id == id; }); });
  }
  std::string audit() const {
    std::stringstream text;
    text << std::ifstream(audit_).rdbuf();
    return text.str();
  }

  const std::filesystem::path folder_ = ::testing::TempDir() + "gate." + std::to_string(::getpid());
  const std::string file_ = folder_ / "tokens.json";
  const std::string audit_ = folder_ / "audit.jsonl";
  std::string last_id_;
};

TEST_F(GateTest, WithoutAFileEverybodyMayEverything) {
  Gate gate({});
  const Admission admission = gate.admit("", "10.0.0.7");
  ASSERT_TRUE(admission.ok());
  EXPECT_TRUE(admission.caller.may_ingest("a") && admission.caller.may_read_all() && admission.caller.may_admin());
  EXPECT_EQ(admission.caller.peer(), "10.0.0.7");
}

TEST_F(GateTest, LetsTokensInAndNobodyElse) {
  const std::string header = add({"ingest:a*", "read:b*"});
  Gate gate({file_, audit_});
  const Admission admission = gate.admit(header, "10.0.0.7");
  ASSERT_TRUE(admission.ok());
  EXPECT_TRUE(admission.caller.may_ingest("a1"));
  EXPECT_FALSE(admission.caller.may_ingest("b1"));
  EXPECT_TRUE(admission.caller.may_read("b1"));
  EXPECT_FALSE(admission.caller.may_read_all());
  EXPECT_FALSE(admission.caller.may_operate("a1"));
  EXPECT_FALSE(admission.caller.may_admin());

  EXPECT_EQ(gate.admit("", "p").status.code, Status::kUnauthenticated);
  std::string wrong = header;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  const Admission guessed = gate.admit(wrong, "p");
  EXPECT_EQ(guessed.status.code, Status::kUnauthenticated);
  // The same words for an id that nobody has, and no secret in the audit log.
  EXPECT_EQ(gate.admit("Bearer " + to_text(make_token()), "p").status.message, guessed.status.message);
  EXPECT_THAT(audit(), HasSubstr("\"call\":\"authenticate\""));
  EXPECT_THAT(audit(), Not(HasSubstr(header.substr(header.rfind('_') + 1, 20))));
}

TEST_F(GateTest, ATokenMadeAMomentAgoIsKnown) {
  add({"read"});
  Gate gate({file_, audit_});
  EXPECT_TRUE(gate.admit(add({"read"}), "p").ok());
}

TEST_F(GateTest, GuessersWaitAndOthersAtTheirAddressDoNot) {
  const std::string mine = add({"read"});
  const std::string other = add({"read"});
  Gate gate({file_, audit_});
  std::string wrong = mine;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  for (unsigned i = 0; i < Lockout::kFree; ++i) gate.admit(wrong, "10.0.0.7");
  const Admission locked = gate.admit(mine, "10.0.0.7");
  EXPECT_EQ(gate.refusals().of(Refusal::kWrongToken), Lockout::kFree);
  EXPECT_EQ(gate.refusals().of(Refusal::kLockedOut), 1u);
  EXPECT_EQ(locked.status.code, Status::kResourceExhausted);  // also the right one, there
  EXPECT_GE(locked.retry_after_s, 1);
  EXPECT_TRUE(gate.admit(mine, "10.0.0.8").ok());
  EXPECT_TRUE(gate.admit(other, "10.0.0.7").ok());
}

TEST_F(GateTest, TakesChangesOfTheFileAndKeepsTheOldOneWhenItIsBroken) {
  const std::string header = add({"ingest:a*"});
  const std::string id = last_id_;
  Gate gate({file_, audit_});
  const Caller caller = gate.admit(header, "p").caller;
  std::atomic<int> ended{0};
  const auto hold = gate.hold([&] { return caller.may_ingest("a1"); }, [&] { ++ended; });

  std::ofstream(file_) << "broken";
  gate.refresh();
  EXPECT_TRUE(gate.admit(header, "p").ok());
  EXPECT_TRUE(caller.known());

  std::filesystem::remove(file_);
  const std::string later = add({"read"});
  gate.refresh();
  EXPECT_FALSE(caller.known());
  EXPECT_FALSE(caller.may_ingest("a1"));
  EXPECT_EQ(gate.admit(header, "p").status.code, Status::kUnauthenticated);
  EXPECT_TRUE(gate.admit(later, "p").ok());
  for (int i = 0; i < 100 && ended == 0; ++i) ::usleep(50'000);
  EXPECT_EQ(ended, 1);
}

TEST_F(GateTest, ATokenExpires) {
  const std::string header = add({"read"}, {}, 1);
  Gate gate({file_, audit_});
  EXPECT_EQ(gate.admit(header, "p").status.code, Status::kUnauthenticated);
}

TEST_F(GateTest, LimitsAreOfAllCallersWithAToken) {
  TokenLimits limits;
  limits.streams = 1;
  limits.runs = 1;
  limits.queries = 2;
  const std::string header = add({"admin"}, limits);
  Gate gate({.tokens_file = file_, .audit_log = audit_, .max_streams = 1});
  const auto token = gate.admit(header, "p").caller.token();
  EXPECT_EQ(token, gate.admit(header, "q").caller.token());
  Permit first = Token::take_stream(token);
  EXPECT_TRUE(first);
  EXPECT_FALSE(Token::take_stream(token));
  first.reset();
  EXPECT_TRUE(Token::take_stream(token));
  const Permit run = Token::take_run(token, "a");
  EXPECT_TRUE(Token::take_run(token, "a"));
  EXPECT_FALSE(Token::take_run(token, "b"));
  const Permit query = Token::take_query(token);
  const Permit another = Token::take_query(token);
  EXPECT_FALSE(Token::take_query(token));
  Permit place = gate.take_stream();
  EXPECT_TRUE(place);
  EXPECT_FALSE(gate.take_stream());
  place.reset();
  EXPECT_TRUE(gate.take_stream());
}

TEST(AuditLine, IsOneLineWhateverIsInIt) {
  AuditEntry entry;
  entry.call = "CreateSilence";
  entry.target = "run=\"a\n\x1b[2J\xff\"";
  entry.who = std::string(600, 'x');
  const std::string line = audit_line(entry, 1'764'475'200'123);
  EXPECT_THAT(line, HasSubstr("\"time\":\"2025-11-30T04:00:00.123Z\""));
  EXPECT_THAT(line, HasSubstr(R"(run=\"a\n\u001b[2J\ufffd\")"));
  EXPECT_THAT(line, HasSubstr(std::string(512, 'x') + "...\""));
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~');
}

}  // namespace
}  // namespace scalewatch::auth
