#include "server/fleet/run_list.h"

#include <algorithm>
#include <deque>
#include <tuple>
#include <utility>

#include "server/history/api_error.h"
#include "server/history/page_token.h"

namespace scalewatch::fleet {

namespace {

constexpr char kToken = 'R';
constexpr char kPlainToken = 'r';  // of one server's list: see history/runs_api.cc
constexpr int kMaxPages = 1000;    // of a source that holds many runs which are not its own

// What comes first is smaller.
auto key_of(const v1::RunSummary& run, const std::string& source) {
  return std::make_tuple(-static_cast<std::int64_t>(run.worst_open()), -run.last_report_ms(), source);
}

}  // namespace

struct RunListMerge::Front {
  const Source* source = nullptr;
  bool first = false;  // the answering server
  std::deque<v1::RunSummary> rows{};
  std::string token{};
  bool over = false;
  bool passed{};  // the last run told was met among its equals
  int pages = 0;
};

engine::Status RunListMerge::begin() {
  try {
    size_ = static_cast<int>(history::checked_page_size(request_.page_size()));
    const bool plain = request_.page_token().starts_with(history::make_token(kPlainToken, {}));
    const auto token = history::read_token(request_.page_token(), plain ? kPlainToken : kToken, plain ? 3 : 4);
    if (token.empty()) return {};
    continues_ = true;
    worst_ = history::token_number(token[0]);
    last_report_ms_ = history::token_number(token[1]);
    if (plain) return {};
    instance_ = token[2];
    run_uid_ = token[3];
    return {};
  } catch (const history::ApiError& error) {
    return error.status;
  }
}

// Lists continue at the last run's place, equals included: those of them that were told are passed over. The one that tells all
// at once begins anew.
bool RunListMerge::was_told(const v1::RunSummary& run, Front& front) const {
  const auto place = [](std::int64_t worst, std::int64_t last_report_ms) { return std::make_pair(-worst, -last_report_ms); };
  if (continues_ && place(run.worst_open(), run.last_report_ms()) < place(worst_, last_report_ms_)) return true;
  if (continues_ && run.run_uid() == run_uid_) return front.passed = true;  // also where two tell of it
  if (!continues_ || run_uid_.empty() || run.worst_open() != worst_ || run.last_report_ms() != last_report_ms_) return false;
  const std::string& name = front.source->instance;
  if (name != instance_) return name < instance_;
  return !front.passed;
}

// Brings the next row of its own to the front; false when there is none.
bool RunListMerge::fill(Front& front, const std::vector<Source>& sources, std::set<std::string>& left_out,
                        engine::Status& status) const {
  while (front.rows.empty() && !front.over && front.pages < kMaxPages) {
    v1::ListRunsRequest page = request_;
    page.set_page_size(size_);
    page.set_page_token(front.token);
    v1::ListRunsResponse out;
    status = front.source->list(page, out);
    if (!status.ok()) {
      front.over = true;
      if (!front.first && status.code == engine::Status::kUnavailable) {
        left_out.insert(front.source->instance);
        status = {};
      }
      return false;
    }
    ++front.pages;
    for (v1::RunSummary& run : *out.mutable_runs()) {
      const std::string& owner = run.instance();
      const bool own = owner.empty() || owner == front.source->instance || front.source->instance.empty();
      const bool orphan =
          !own_only_ && front.first && owner != kNobody &&
          std::none_of(sources.begin(), sources.end(), [&](const Source& source) { return source.instance == owner; });
      if ((own || orphan) && !was_told(run, front)) front.rows.push_back(std::move(run));
    }
    front.token = out.next_page_token();
    front.over = front.token.empty();
  }
  return !front.rows.empty();
}

engine::Status RunListMerge::run(const std::vector<Source>& sources, v1::ListRunsResponse& response,
                                 std::set<std::string>& left_out) const {
  std::vector<Front> fronts;
  for (const Source& source : sources) {
    Front& front = fronts.emplace_back();
    front.source = &source;
    front.first = fronts.size() == 1;
    if (continues_) {
      front.token =
          history::make_token(kPlainToken, {std::to_string(worst_), std::to_string(last_report_ms_), std::to_string(-1)});
    }
  }
  std::string teller;  // of the last run
  // A server that has just come back may list a run that another one took over meanwhile.
  std::set<std::string> told;
  while (true) {
    Front* best = nullptr;
    for (Front& front : fronts) {
      engine::Status status;
      if (!fill(front, sources, left_out, status)) {
        if (!status.ok()) return status;
        continue;
      }
      if (best == nullptr ||
          key_of(front.rows.front(), front.source->instance) < key_of(best->rows.front(), best->source->instance)) {
        best = &front;
      }
    }
    if (best == nullptr) return {};
    if (response.runs_size() == size_) {
      const v1::RunSummary& last = response.runs(size_ - 1);
      response.set_next_page_token(history::make_token(
          kToken, {std::to_string(last.worst_open()), std::to_string(last.last_report_ms()), teller, last.run_uid()}));
      return {};
    }
    teller = best->source->instance;
    if (told.insert(best->rows.front().run_uid()).second) *response.add_runs() = std::move(best->rows.front());
    best->rows.pop_front();
  }
}

}  // namespace scalewatch::fleet
