#include "server/http/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalewatch::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Url url_of(const char* target) {
  return parse_target(target).value_or(Url{{"not", "a", "path"}, {}});
}

TEST(OwnName, IsWhatNobodyElseCanHave) {
  for (const char* own : {"127.0.0.1:9464", "10.0.0.7", "[::1]:9464", "localhost", "LOCALHOST.:1", "a.localhost", "watch", "",
                          "Watch.Example.org:443"}) {
    EXPECT_TRUE(is_own_name(own, "watch.example.org")) << own;
  }
  for (const char* other :
       {"rebound.example.org", "127.0.0.1.example.org", "localhost.example.org:9464", "watch.example.org.evil"}) {
    EXPECT_FALSE(is_own_name(other, "watch.example.org")) << other;
    EXPECT_FALSE(is_own_name(other, "")) << other;
  }
}

TEST(Url, SplitsBeforeDecoding) {
  const Url url = url_of("/runs/a%2Fb%20c/?x=1%262&y&x=a+b%2B#part");
  EXPECT_THAT(url.segments, ElementsAre("runs", "a/b c"));
  EXPECT_THAT(url.query, ElementsAre(Pair("x", "1&2"), Pair("y", ""), Pair("x", "a b+")));
}

TEST(Url, Edges) {
  EXPECT_THAT(url_of("/").segments, IsEmpty());
  EXPECT_THAT(url_of("/?").segments, IsEmpty());
  EXPECT_THAT(url_of("http://host:1/a").segments, ElementsAre("a"));
  EXPECT_THAT(url_of("http://host").segments, IsEmpty());
  EXPECT_THAT(url_of("/a//b").segments, ElementsAre("a", "", "b"));
  EXPECT_THAT(url_of("/a+b").segments, ElementsAre("a+b"));
  for (const char* bad : {"", "a", "*", "/%", "/%4", "/%zz", "/a?%G0"}) EXPECT_FALSE(parse_target(bad)) << bad;
}

Handler answer(const char* text) {
  return [text](const Call&) { return Response{200, "text/plain", text, {}}; };
}

TEST(Router, FindsByPathAndMethod) {
  const Router router({{"GET", "/", Speed::kQuick, answer("index")},
                       {"GET", "/things/{name}", Speed::kWorker, answer("thing")},
                       {"POST", "/things/{name}/hide", Speed::kWorker, answer("hide")}});
  const auto match = [&](const char* method, const char* target) { return router.match({method, target, "", ""}); };
  EXPECT_EQ(match("GET", "/").route->pattern, "/");
  const auto thing = match("GET", "/things/a%2Fb");
  ASSERT_NE(thing.route, nullptr);
  EXPECT_THAT(thing.path, ElementsAre(Pair("name", "a/b")));

  EXPECT_EQ(match("GET", "/things").error.status, 404u);
  EXPECT_EQ(match("GET", "/things/a/b").error.status, 404u);
  EXPECT_EQ(match("GET", "/%").error.status, 400u);
  const auto refused = match("DELETE", "/things/a");
  EXPECT_EQ(refused.error.status, 405u);
  EXPECT_THAT(refused.error.headers, ElementsAre(Pair("Allow", "GET, HEAD")));
  EXPECT_THAT(match("GET", "/things/a/hide").error.headers, ElementsAre(Pair("Allow", "POST")));
}

}  // namespace
}  // namespace scalewatch::http
