// Of several hosts: which one is asked, left, and gone back to.
#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <thread>

#include "server/engine/ports/history_store.h"
#include "server/history/clickhouse/connection.h"
#include "tests/integration/clickhouse/stub_host.h"

namespace scalewatch::clickhouse {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLook = "system.tables";
constexpr const char* kQuestion = "SELECT what";

class HostsTest : public ::testing::Test {
 protected:
  HostsTest() {
    options_.hosts = first_.url() + "," + second_.url();
    options_.timeout = std::chrono::seconds(1);
  }
  // To a look: how many of the tables there are; replicas that lag or are read-only.
  static std::string seen(char tables, char late) {
    std::string row(16, '\0');
    row[0] = tables;
    row[8] = late;
    return StubHost::http(200, row);
  }
  static std::string good(const std::string& request, const std::string& name) {
    return request.find(kLook) != std::string::npos ? seen(1, 0) : StubHost::http(200, name);
  }
  static StubHost::Answer good_as(const std::string& name) {
    return [name](const std::string& request) { return good(request, name); };
  }
  static StubHost::Answer always(const std::string& answer) {
    return [answer](const std::string&) { return answer; };
  }
  // Asks until it is so.
  static bool comes(Connection& connection, const std::function<bool(const std::string& answer)>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      if (is_so(connection.query(kQuestion))) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  StubHost first_{good_as("first")};
  StubHost second_{good_as("second")};
  Options options_;
};

TEST_F(HostsTest, OneWithAFaultOfItsOwnIsLeftForTheNext) {
  const std::string faults[] = {StubHost::error(242),
                                StubHost::error(252),
                                StubHost::error(241),
                                StubHost::error(243),
                                StubHost::http(503, ""),
                                StubHost::http(502, "<html>a proxy's</html>"),
                                ""};
  for (const std::string& fault : faults) {
    first_.set(always(fault));
    Connection connection(options_);
    EXPECT_EQ(connection.query(kQuestion), "second") << fault;
    Connection writer(options_);
    const int before = second_.asked("INSERT");
    writer.insert_raw("owners", "rows");
    EXPECT_EQ(second_.asked("INSERT"), before + 1) << fault;
  }
}

TEST_F(HostsTest, AMistakeOfOursIsThrownAtOnce) {
  for (const int code : {62, 47, 516}) {
    first_.set(always(StubHost::error(code)));
    Connection connection(options_);
    try {
      connection.query(kQuestion);
      ADD_FAILURE() << code << " was answered";
    } catch (const engine::StoreError& error) {
      EXPECT_FALSE(error.retryable);
    }
  }
  EXPECT_EQ(second_.asked(""), 0);
}

TEST_F(HostsTest, WhenAllFailAllAreTold) {
  first_.set(always(StubHost::error(242)));
  second_.set(always(StubHost::http(503, "")));
  Connection connection(options_);
  try {
    connection.query(kQuestion);
    FAIL();
  } catch (const engine::StoreError& error) {
    EXPECT_TRUE(error.retryable);
    EXPECT_THAT(error.what(), HasSubstr(first_.url() + ": Code: 242"));
    EXPECT_THAT(error.what(), HasSubstr(second_.url() + ": HTTP 503"));
  }
}

TEST_F(HostsTest, TheFirstIsAskedAgainOnceItAnswers) {
  first_.set(always(StubHost::kHangs));
  Connection connection(options_);
  EXPECT_EQ(connection.query(kQuestion), "second");
  // While it hangs no question waits for it.
  ASSERT_TRUE(comes(connection, [&](const std::string&) { return first_.asked(kLook) >= 2; }));
  EXPECT_EQ(first_.asked(kQuestion), 1);
  first_.set(good_as("first"));
  EXPECT_TRUE(comes(connection, [](const std::string& answer) { return answer == "first"; }));
}

TEST_F(HostsTest, OneThatLagsIsNotGoneBackTo) {
  first_.set(always(StubHost::error(242)));
  Connection connection(options_);
  EXPECT_EQ(connection.query(kQuestion), "second");
  first_.set([](const std::string& request) {
    return request.find(kLook) != std::string::npos ? seen(1, 1) : StubHost::http(200, "first");
  });
  ASSERT_TRUE(comes(connection, [&](const std::string&) { return first_.asked(kLook) >= 2; }));
  EXPECT_EQ(first_.asked(kQuestion), 1);
}

TEST_F(HostsTest, OneWithoutTablesIsNotAskedUntilItHasThem) {
  first_.set([](const std::string& request) {
    return request.find(kLook) != std::string::npos ? seen(0, 0) : StubHost::http(200, "first");
  });
  Connection connection(options_);
  connection.set_tables(0, false);
  EXPECT_EQ(connection.query(kQuestion), "second");
  bool bare = false;
  ASSERT_TRUE(comes(connection, [&](const std::string&) { return bare = bare || connection.take_bare(); }));
  EXPECT_EQ(first_.asked(kQuestion), 0);
  first_.set(good_as("first"));
  EXPECT_TRUE(comes(connection, [](const std::string& answer) { return answer == "first"; }));
}

// A replica that does not have all is left, whatever it would answer.
TEST_F(HostsTest, WhoNeedsAllAsksOneThatHasAll) {
  options_.layout = "replicated";
  first_.set([](const std::string& request) {
    if (request.find("SYNC REPLICA") != std::string::npos) return StubHost::error(159);
    if (request.find("replication_queue") != std::string::npos) return StubHost::http(200, std::string("\1\0\0\0\0\0\0\0", 8));
    return good(request, "first");
  });
  Connection connection(options_);
  EXPECT_EQ(connection.query(kQuestion), "first");
  EXPECT_EQ(connection.query_whole({"batches"}, kQuestion), "second");
  second_.set(always(StubHost::kHangs));
  try {
    Connection(options_).query_whole({"batches"}, kQuestion);
    FAIL();
  } catch (const engine::StoreError& error) {
    EXPECT_TRUE(error.retryable);
    EXPECT_THAT(error.what(), HasSubstr("its batches lags behind another replica"));
  }
  // Merges are no lag.
  first_.set([](const std::string& request) {
    if (request.find("SYNC REPLICA") != std::string::npos) return StubHost::error(159);
    if (request.find("replication_queue") != std::string::npos) return StubHost::http(200, std::string(8, '\0'));
    return good(request, "first");
  });
  EXPECT_EQ(Connection(options_).query_whole({"batches"}, kQuestion), "first");
}

}  // namespace
}  // namespace scalewatch::clickhouse
