#include "server/auth/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "server/auth/scopes.h"
#include "server/auth/token_file.h"

namespace scalewatch::auth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Token, ATextIsReadAsItWasMade) {
  const TokenText made = make_token();
  const std::string text = to_text(made);
  EXPECT_THAT(text, ::testing::MatchesRegex("swt_[a-z2-7]{12}_[a-z2-7]{52}"));
  const auto read = parse_token(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, made.id);
  EXPECT_EQ(read->secret, made.secret);
  EXPECT_EQ(parse_bearer("bEaReR  " + text)->id, made.id);
  EXPECT_NE(make_token().secret, made.secret);
  for (const std::string& wrong : {std::string(), text.substr(1), text + "a", text.substr(0, text.size() - 1), "Basic " + text,
                                   "swt_" + std::string(12, 'A') + text.substr(16)}) {
    EXPECT_FALSE(parse_token(wrong)) << wrong;
    EXPECT_FALSE(parse_bearer(wrong)) << wrong;
  }
}

TEST(Token, AHashIsOfIdAndSecret) {
  const TokenText token{"abcdefghijkl", std::string(52, 'a')};
  const std::string hash = hash_of(token);
  // printf 'scalewatch token abcdefghijkl:aaa...' | sha256sum
  EXPECT_TRUE(is_hash(hash)) << hash;
  EXPECT_TRUE(same_hash(hash, hash_of(token)));
  EXPECT_FALSE(same_hash(hash, hash_of({"abcdefghijkm", token.secret})));
  EXPECT_FALSE(same_hash(hash, hash_of({token.id, "b" + token.secret.substr(1)})));
  EXPECT_FALSE(same_hash(hash, ""));
}

TEST(Scopes, ArePatternsOfWholeNames) {
  Scopes scopes;
  EXPECT_TRUE(scopes.add("ingest:team-a/*"));
  EXPECT_TRUE(scopes.add("read"));
  EXPECT_TRUE(scopes.add("operate:team-[ab]"));
  for (const char* wrong : {"", "ingest:", "write", "read: \n", "admin:x", "Read:*", "operate:\x7f"}) {
    EXPECT_FALSE(scopes.add(wrong)) << wrong;
  }
  EXPECT_THAT(scopes.texts(), ElementsAre("ingest:team-a/*", "read:*", "operate:team-[ab]"));
  EXPECT_TRUE(scopes.may_ingest("team-a/7"));
  EXPECT_FALSE(scopes.may_ingest("my-team-a/7"));
  EXPECT_TRUE(scopes.may_read("anything/at.all"));
  EXPECT_TRUE(scopes.may_read_all());
  EXPECT_TRUE(scopes.may_operate("team-b"));
  EXPECT_FALSE(scopes.may_operate("team-c"));
  EXPECT_FALSE(scopes.may_operate_all());
  // A name that is a pattern is no key to others.
  EXPECT_FALSE(scopes.may_ingest("*"));
}

class TokenFile : public ::testing::Test {
 protected:
  TokenFile() { std::filesystem::create_directory(folder_); }
  ~TokenFile() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text) const {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), 0600);
  }
  std::string fault() const {
    try {
      read_tokens(path_);
      return "none";
    } catch (const TokenFileError& error) {
      return error.what();
    }
  }
  static TokenRecord record() {
    TokenRecord out;
    const TokenText token = make_token();
    out.id = token.id;
    out.name = "ci \"one\"";
    out.hash = hash_of(token);
    out.scopes.add("ingest:a*");
    out.limits.streams = 3;
    out.expires_ms = 5;
    return out;
  }
  const std::filesystem::path folder_ = ::testing::TempDir() + "tokens." + std::to_string(::getpid());
  const std::string path_ = folder_ / "tokens.json";
};

TEST_F(TokenFile, KeepsWhatAnEditPutThere) {
  const TokenRecord first = record();
  const TokenRecord second = record();
  edit_tokens(path_, [&](auto& tokens) { tokens.push_back(first); });
  edit_tokens(path_, [&](auto& tokens) { tokens.push_back(second); });
  EXPECT_THAT(read_tokens(path_), ElementsAre(first, second));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  // An edit that throws changes nothing.
  EXPECT_THROW(edit_tokens(path_, [](auto& tokens) { tokens.clear(), throw std::logic_error("no"); }), std::logic_error);
  EXPECT_THAT(read_tokens(path_), SizeIs(2));
}

TEST_F(TokenFile, RefusesWhatOthersMayReadOrWhatIsNoFileOfTokens) {
  EXPECT_THAT(fault(), HasSubstr("cannot be read"));
  for (const char* text : {"", "{", "[]", R"({"version":2,"tokens":[]})", R"({"version":1,"tokens":[{"id":"../../etc"}]})",
                           R"({"version":1,"tokens":[{"id":"abcdefghijkl","name":"x","hash":"md5:1","scopes":[]}]})"}) {
    write(text);
    EXPECT_THAT(fault(), HasSubstr(path_)) << text;
  }
  write(R"({"version":1,"tokens":[]})");
  EXPECT_EQ(fault(), "none");
  for (const int mode : {0644, 0660, 0604}) {
    ::chmod(path_.c_str(), static_cast<mode_t>(mode));
    EXPECT_THAT(fault(), HasSubstr("chmod 600")) << mode;
  }
}

}  // namespace
}  // namespace scalewatch::auth
