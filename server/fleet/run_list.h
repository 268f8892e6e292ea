// ListRuns over several servers: their lists, each in the order of the contract, merged into one that can be paged.
//
// The token holds no server's state but the place of the last run told, so that any server can give the next page.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "server/engine/ports/read_api.h"

namespace scalewatch::fleet {

// Server of a run that began anew elsewhere as another one, and of an old state of one that others tell of: what is stored of
// it is left out of lists.
inline constexpr char kNobody[] = "?";

class RunListMerge {
 public:
  struct Source {
    std::string instance;  // empty: it tells of runs that no server has, all of them at once
    std::function<engine::Status(const v1::ListRunsRequest& page, v1::ListRunsResponse& out)> list;
  };

  // `own_only`: of the first source, too, only its own runs.
  explicit RunListMerge(const v1::ListRunsRequest& request, bool own_only = false) : request_(request), own_only_(own_only) {}

  // Checks page_size and page_token, which may be one of a single server's list, too.
  engine::Status begin();
  // The first source is the server that answers: of runs whose server is not among the sources its own list counts. Every other
  // run is told by the server that has it. A source that does not answer (UNAVAILABLE) is left out, the first one never, and
  // named in `left_out`.
  engine::Status run(const std::vector<Source>& sources, v1::ListRunsResponse& response, std::set<std::string>& left_out) const;

 private:
  struct Front;
  bool fill(Front& front, const std::vector<Source>& sources, std::set<std::string>& left_out, engine::Status& status) const;
  [[nodiscard]] bool was_told(const v1::RunSummary& run, Front& front) const;

  const v1::ListRunsRequest& request_;
  const bool own_only_;
  int size_ = 100;
  bool continues_ = false;
  // The last run of the page before.
  std::int64_t worst_ = 0;
  std::int64_t last_report_ms_ = 0;
  std::string instance_;
  std::string run_uid_;
};

}  // namespace scalewatch::fleet
