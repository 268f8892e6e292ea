#include "server/fleet/run_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/history/page_token.h"

namespace scalewatch::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::RunSummary run(const std::string& uid, int worst, std::int64_t last_report_ms, const std::string& instance) {
  v1::RunSummary out;
  out.set_run_uid(uid);
  out.set_worst_open(static_cast<v1::Severity>(worst));
  out.set_last_report_ms(last_report_ms);
  out.set_instance(instance);
  return out;
}

// One server's list, as history/runs_api.cc gives it: by key, then in the order of the rows.
class Store {
 public:
  explicit Store(std::string name) : name_(std::move(name)) {}
  std::vector<v1::RunSummary> rows;
  bool answers = true;

  RunListMerge::Source source() {
    return {name_,
            [this](const v1::ListRunsRequest& request, v1::ListRunsResponse& response) { return list(request, response); }};
  }

 private:
  engine::Status list(const v1::ListRunsRequest& request, v1::ListRunsResponse& response) const {
    if (!answers) return {engine::Status::kUnavailable, "gone"};
    struct Row {
      std::int64_t worst, last, id;
      const v1::RunSummary* run;
      auto key() const { return std::make_tuple(-worst, -last, id); }
    };
    std::vector<Row> sorted;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sorted.push_back({rows[i].worst_open(), rows[i].last_report_ms(), static_cast<std::int64_t>(i + 1), &rows[i]});
    }
    std::sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.key() < b.key(); });
    const auto token = history::read_token(request.page_token(), 'r', 3);
    for (const Row& row : sorted) {
      if (!token.empty() && row.key() <= std::make_tuple(-history::token_number(token[0]), -history::token_number(token[1]),
                                                         history::token_number(token[2])))
        continue;
      if (response.runs_size() == request.page_size()) {
        response.set_next_page_token(last_);
        return {};
      }
      *response.add_runs() = *row.run;
      last_ = history::make_token('r', {std::to_string(row.worst), std::to_string(row.last), std::to_string(row.id)});
    }
    return {};
  }
  const std::string name_;
  mutable std::string last_;
};

std::vector<std::string> page(const std::vector<RunListMerge::Source>& sources, int size, std::string& token,
                              bool own_only = false) {
  v1::ListRunsRequest request;
  request.set_page_size(size);
  request.set_page_token(token);
  RunListMerge merge(request, own_only);
  EXPECT_TRUE(merge.begin().ok());
  v1::ListRunsResponse response;
  std::set<std::string> left_out;
  EXPECT_TRUE(merge.run(sources, response, left_out).ok());
  token = response.next_page_token();
  std::vector<std::string> uids;
  for (const v1::RunSummary& each : response.runs()) uids.push_back(each.run_uid());
  return uids;
}

std::vector<std::string> everything(const std::vector<RunListMerge::Source>& sources, int size) {
  std::vector<std::string> all;
  std::string token;
  do {
    const auto uids = page(sources, size, token);
    all.insert(all.end(), uids.begin(), uids.end());
  } while (!token.empty());
  return all;
}

TEST(RunList, PagesOfAnySizeTellEachRunOnceAndInOrder) {
  Store a("a");
  Store b("b");
  Store c("c");
  for (int i = 0; i < 40; ++i) {
    // Many equal keys: runs that never reported, and runs of the same moment.
    Store& store = i % 3 == 0 ? a : i % 3 == 1 ? b : c;
    store.rows.push_back(run("u" + std::to_string(i), i % 4 == 0 ? 2 : 0, i < 15 ? 0 : 1000 + i / 4,
                             i % 3 == 0   ? "a"
                             : i % 3 == 1 ? "b"
                                          : "c"));
  }
  const std::vector<RunListMerge::Source> sources{a.source(), b.source(), c.source()};
  const auto whole = everything(sources, 1000);
  EXPECT_EQ(std::set<std::string>(whole.begin(), whole.end()).size(), 40U);
  EXPECT_EQ(whole.size(), 40U);
  for (const int size : {1, 2, 3, 7, 13, 39, 40}) EXPECT_EQ(everything(sources, size), whole) << size;
  // Another server may give the next page.
  std::string token;
  auto first = page(sources, 11, token);
  const std::vector<RunListMerge::Source> others{c.source(), a.source(), b.source()};
  const auto second = page(others, 1000, token);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(first, whole);
}

TEST(RunList, ARunThatMovesUpHidesNoOther) {
  Store a("a");
  Store b("b");
  a.rows = {run("a1", 0, 50, "a"), run("a2", 0, 30, "a")};
  b.rows = {run("b1", 0, 40, "b"), run("b2", 0, 20, "b")};
  const std::vector<RunListMerge::Source> sources{a.source(), b.source()};
  std::string token;
  EXPECT_THAT(page(sources, 2, token), ElementsAre("a1", "b1"));
  b.rows[0].set_last_report_ms(60);
  EXPECT_THAT(page(sources, 2, token), ElementsAre("a2", "b2"));
}

TEST(RunList, EachRunIsToldByTheServerThatHasIt) {
  Store a("a");
  Store b("b");
  a.rows = {run("moved", 2, 10, "b"), run("a1", 0, 5, "a"), run("old", 0, 4, "")};
  b.rows = {run("moved", 0, 90, "b"), run("copy", 0, 1, "a"), run("orphan", 0, 3, "gone")};
  const std::vector<RunListMerge::Source> from_a{a.source(), b.source()};
  const std::vector<RunListMerge::Source> from_b{b.source(), a.source()};
  EXPECT_THAT(everything(from_a, 10), ElementsAre("moved", "a1", "old"));
  // Of a server that is not there, what the answering one knows.
  EXPECT_THAT(everything(from_b, 10), ElementsAre("moved", "a1", "old", "orphan"));
}

// It began anew elsewhere, as another run: what is left of it runs nowhere.
TEST(RunList, AStumpIsInNoList) {
  Store a("a");
  Store b("b");
  a.rows = {run("stump", 3, 9, kNobody), run("a1", 0, 5, "a")};
  b.rows = {run("anew", 0, 8, "b")};
  EXPECT_THAT(everything({a.source(), b.source()}, 10), ElementsAre("anew", "a1"));
  EXPECT_THAT(everything({b.source(), a.source()}, 10), ElementsAre("anew", "a1"));
}

TEST(RunList, WhatIsToldAllAtOnceIsPaged) {
  Store a("a");
  a.rows = {run("a1", 0, 8, "a"), run("a2", 0, 2, "a")};
  const RunListMerge::Source nobodys{"", [](const v1::ListRunsRequest& /*page*/, v1::ListRunsResponse& response) {
                                       for (const int last : {9, 5, 5, 1}) {
                                         *response.add_runs() =
                                             run("n" + std::to_string(response.runs_size()), 0, last, "gone");
                                       }
                                       return engine::Status();
                                     }};
  for (const int size : {1, 2, 3, 10})
    EXPECT_THAT(everything({a.source(), nobodys}, size), ElementsAre("n0", "a1", "n1", "n2", "a2", "n3")) << size;
}

// As a server tells another one of its own runs, which continues with tokens of either kind.
TEST(RunList, AServersPartIsItsOwnRuns) {
  Store a("a");
  a.rows = {run("a1", 0, 9, "a"), run("a2", 0, 5, "a"), run("copy", 0, 7, "b"), run("orphan", 0, 3, "gone"),
            run("a3", 0, 5, "a")};
  Store shared("");
  shared.rows = {run("lost", 0, 6, "a")};
  const std::vector<RunListMerge::Source> sources{a.source(), shared.source()};
  std::string token;
  EXPECT_THAT(page(sources, 3, token, true), ElementsAre("a1", "lost", "a2"));
  EXPECT_THAT(page(sources, 3, token, true), ElementsAre("a3"));
  EXPECT_THAT(token, IsEmpty());
  token = history::make_token('r', {"0", "6", "-1"});
  EXPECT_THAT(page(sources, 9, token, true), ElementsAre("lost", "a2", "a3"));
}

TEST(RunList, AServerThatDoesNotAnswerIsLeftOutAndNamed) {
  Store a("a");
  Store b("b");
  a.rows = {run("a1", 0, 5, "a")};
  b.rows = {run("b1", 0, 9, "b")};
  b.answers = false;
  EXPECT_THAT(everything({a.source(), b.source()}, 10), ElementsAre("a1"));
  v1::ListRunsResponse response;
  std::set<std::string> left_out;
  EXPECT_TRUE(RunListMerge({}).run({a.source(), b.source()}, response, left_out).ok());
  EXPECT_THAT(left_out, ElementsAre("b"));
}

TEST(RunList, WrongRequestsAreRefused) {
  v1::ListRunsRequest request;
  request.set_page_size(1001);
  EXPECT_EQ(RunListMerge(request).begin().code, engine::Status::kInvalidArgument);
  request.set_page_size(1);
  request.set_page_token("xyz");
  EXPECT_EQ(RunListMerge(request).begin().code, engine::Status::kInvalidArgument);
}

}  // namespace
}  // namespace scalewatch::fleet
