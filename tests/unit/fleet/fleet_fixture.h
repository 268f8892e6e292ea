// Three servers that share their runs, and clients that go where they are sent.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/fleet/nodes.h"

namespace scalewatch::fleet::testing {

using engine::testing::eventually;
using engine::testing::TestClient;

// Lets what must not happen happen: holds its caller back until `seen`, or until it plainly does not come.
class Gate {
 public:
  void wait_once(std::chrono::milliseconds most = std::chrono::milliseconds(500)) {
    if (!used_.exchange(true)) seen_.get_future().wait_for(most);
  }
  void open() { seen_.set_value(); }
  [[nodiscard]] bool used() const { return used_; }

 private:
  std::promise<void> seen_;
  std::atomic<bool> used_{false};
};

class FleetTest : public ::testing::Test {
 protected:
  // Names in the order in which `run` prefers them.
  std::vector<std::string> order(const std::string& run = "run") const {
    std::vector<std::string> names;
    const auto all = parse_instances(instances_, "a");
    for (const std::size_t index : ranking(run, all)) names.push_back(all[index].name);
    return names;
  }
  std::string address(const std::string& name) const {
    for (const Instance& each : parse_instances(instances_, "a")) {
      if (each.name == name) return each.address;
    }
    return {};
  }
  Node& start(const std::string& name, FakeShared* shared) {
    auto& store = stores_[name];
    if (!store) store = std::make_shared<MemoryStore>();
    nodes_[name] = std::make_unique<Node>(name, instances_, shared, store, required_);
    return *nodes_[name];
  }
  void start_all(FakeShared* shared) {
    for (const std::string& name : order()) start(name, shared);
    for (const auto& [name, node] : nodes_) {
      EXPECT_TRUE(eventually([&] { return node->fleet.stats().peers_alive == node->fleet.stats().peers; }));
    }
  }
  Node& node(const std::string& name) { return *nodes_[name]; }
  void kill(const std::string& name) { nodes_.erase(name); }
  // The client's table and reports, all of them durable at the run's owner.
  static void send(TestClient& client, std::uint64_t first, std::uint64_t last) {
    client.send_table();
    for (std::uint64_t seq = first; seq <= last; ++seq) client.send(client.report(seq));
    ASSERT_TRUE(client.durable(last));
  }
  // And in the shared history.
  void share(TestClient& client, const std::string& owner, std::uint64_t first, std::uint64_t last) {
    ASSERT_NO_FATAL_FAILURE(send(client, first, last));
    const std::string uid = client.peer().hello_ack()->run_uid();
    ASSERT_TRUE(eventually([&] { return node(owner).feed->owns(uid); }));
    node(owner).feed->turn();
  }

  // As a client does: it goes where it is sent, and tries again when it is told to. Returns who took it.
  std::string join(std::unique_ptr<TestClient>& client, std::string at, std::uint64_t last_seq, std::uint64_t durable_seq) {
    for (int tries = 0; tries < 100; ++tries) {
      if (!client) {
        client = std::make_unique<TestClient>(node(at).engine, TestClient::Options{});
      } else {
        client->connect(node(at).engine);
      }
      if (client->join(last_seq, durable_seq)) return at;
      const auto fault = client->peer().ended();
      if (!fault) return "no answer";
      if (fault->cause() == v1::FAULT_CAUSE_MOVED) {
        for (const auto& [name, each] : nodes_) {
          if (each->address() == fault->server()) at = name;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return "nobody";
  }

  // The client of a new run with reports 1 to `last`, all of them durable at its owner.
  std::unique_ptr<TestClient> begun(const std::string& owner, std::uint64_t last) {
    std::unique_ptr<TestClient> client;
    EXPECT_EQ(join(client, owner, 0, 0), owner);
    send(*client, 1, last);
    return client;
  }
  // And in the shared history.
  std::unique_ptr<TestClient> begun_and_shared(const std::string& owner, std::uint64_t last) {
    std::unique_ptr<TestClient> client;
    EXPECT_EQ(join(client, owner, 0, 0), owner);
    share(*client, owner, 1, last);
    return client;
  }

  // A run with reports 1 to `last`, all of them shared; its client is gone, and so is its owner.
  std::string killed_with(std::uint64_t last) {
    const auto names = order();
    auto client = begun_and_shared(names[0], last);
    std::string uid = client->peer().hello_ack()->run_uid();
    client.reset();
    kill(names[0]);
    return uid;
  }
  // The next one in its order takes it over, shares reports up to `last`, and is killed.
  void taken_and_killed(std::uint64_t durable, std::uint64_t last) {
    const auto names = order();
    std::unique_ptr<TestClient> client;
    ASSERT_EQ(join(client, names[2], durable, durable), names[1]);
    ASSERT_NO_FATAL_FAILURE(share(*client, names[1], durable + 1, last));
    client.reset();
    kill(names[1]);
  }

  const std::string instances_ = "a=127.0.0.1:" + std::to_string(free_port()) + ",b=127.0.0.1:" + std::to_string(free_port()) +
                                 ",c=127.0.0.1:" + std::to_string(free_port());
  std::map<std::string, std::shared_ptr<MemoryStore>> stores_;
  FakeShared shared_;  // before the servers, that ask it until they end
  std::map<std::string, std::unique_ptr<Node>> nodes_;
  bool required_ = true;
};

}  // namespace scalewatch::fleet::testing
