#include "server/alerting/destinations.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "server/alerting/sink_config.h"

namespace scalewatch::alerting {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string leads_to(const Destinations& destinations, const std::string& host, const char* address) {
  sockaddr_storage storage{};
  auto* in = reinterpret_cast<sockaddr_in*>(&storage);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, address, &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, address, &in6->sin6_addr), 1);
    in6->sin6_family = AF_INET6;
  }
  return destinations.refusal(host, reinterpret_cast<const sockaddr&>(storage));
}

TEST(Destinations, ByDefaultAllButLinkLocalOnes) {
  const Destinations any;
  for (const char* host : {"hooks.example.org", "10.0.0.1", "127.0.0.1", "localhost", "[::1]", "[fd00::1]", ""}) {
    EXPECT_THAT(any.refusal(host), IsEmpty()) << host;
  }
  for (const char* host : {"169.254.169.254", "[fe80::1]", "[FE80::1%25eth0]", "[::ffff:169.254.169.254]", "[febf::1]",
                           "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]"}) {
    EXPECT_THAT(any.refusal(host), HasSubstr("link-local")) << host;
  }
  // A name that leads there is no way around it.
  EXPECT_THAT(leads_to(any, "hooks.example.org", "169.254.169.254"), HasSubstr("hooks.example.org leads is link-local"));
  EXPECT_THAT(leads_to(any, "hooks.example.org", "::ffff:169.254.1.1"), HasSubstr("link-local"));
  EXPECT_THAT(leads_to(any, "hooks.example.org", "10.0.0.1"), IsEmpty());
  // Only what is written as loopback may lead there.
  EXPECT_THAT(leads_to(any, "hooks.example.org", "127.0.0.1"), HasSubstr("this machine itself"));
  EXPECT_THAT(leads_to(any, "localhost", "127.0.0.1"), IsEmpty());
  EXPECT_THAT(leads_to(any, "127.0.0.1", "127.0.0.1"), IsEmpty());
  Destinations listed;
  listed.hosts = {"hooks.example.org"};
  EXPECT_THAT(leads_to(listed, "hooks.example.org", "127.0.0.1"), IsEmpty());
}

TEST(Destinations, LoopbackIsRefusedWhereOthersReachTheServer) {
  Destinations outside;
  outside.loopback = false;
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "0.0.0.0", "[::]"}) {
    EXPECT_THAT(outside.refusal(host), HasSubstr("this machine itself")) << host;
  }
  EXPECT_THAT(leads_to(outside, "rebound.example.org", "127.0.0.1"), HasSubstr("this machine itself"));
  EXPECT_THAT(leads_to(outside, "rebound.example.org", "::1"), HasSubstr("this machine itself"));
  outside.hosts = {"localhost"};
  EXPECT_THAT(outside.refusal("localhost"), IsEmpty());
  EXPECT_THAT(leads_to(outside, "localhost", "127.0.0.1"), IsEmpty());
}

TEST(Destinations, AListIsAllThereIs) {
  Destinations list;
  list.hosts = Destinations::parse("hooks.example.org,*.Corp.example , 10.0.0.*  [fd00::7]");
  EXPECT_THAT(list.hosts, ElementsAre("hooks.example.org", "*.Corp.example", "10.0.0.*", "[fd00::7]"));
  for (const char* host : {"HOOKS.example.org", "hooks.example.org.", "a.corp.example", "10.0.0.9", "[FD00::7]"}) {
    EXPECT_THAT(list.refusal(host), IsEmpty()) << host;
  }
  for (const char* host :
       {"example.org", "hooks.example.org.evil.org", "corp.example", "10.0.1.1", "10.0.0.evil.org", "localhost", "fd00::8"}) {
    EXPECT_THAT(list.refusal(host), HasSubstr("not in alerting.allowed_hosts")) << host;
  }
}

TEST(Destinations, SinksAreCheckedWithoutSayingMoreThanTheHost) {
  SinkConfig sink;
  sink.name = "hook";
  sink.type = "webhook";
  sink.url = "http://169.254.169.254/T0KEN?x=y";
  const auto faults = destination_faults({sink});
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_THAT(faults.front(), testing::StartsWith("sink 'hook': url: host 169.254.169.254 is link-local"));
  EXPECT_EQ(faults.front().find("T0KEN"), std::string::npos);
  sink.destinations.hosts = {"169.254.169.254"};
  EXPECT_THAT(destination_faults({sink}), IsEmpty());
  // Written as one number, or with fewer parts: libcurl reads them as the same address.
  sink.destinations.hosts.clear();
  for (const char* url : {"http://2852039166/", "http://0xa9.0xfe.0xa9.0xfe/", "http://169.254.43518/"}) {
    sink.url = url;
    EXPECT_EQ(destination_faults({sink}).size(), 1U) << url;
  }
  SinkConfig pager;
  pager.name = "pager";
  pager.type = "pagerduty";
  pager.destinations.hosts = {"example.org"};
  EXPECT_THAT(destination_faults({pager}).at(0), HasSubstr("events.pagerduty.com"));
}

}  // namespace
}  // namespace scalewatch::alerting
