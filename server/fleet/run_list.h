// ListRuns over several servers: their lists, each in the order of the contract, merged into one that can be paged.
//
// The token holds no server's state but the place of the last run told, so that any server can give the next page.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/engine/ports/read_api.h"

namespace scalewatch::fleet {

class RunListMerge {
 public:
  struct Source {
    std::string instance;  // empty: it tells of runs that no server has, all of them at once
    std::function<engine::Status(const v1::ListRunsRequest& page, v1::ListRunsResponse& out)> list;
  };

  explicit RunListMerge(const v1::ListRunsRequest& request) : request_(request) {}

  // Checks page_size and page_token.
  engine::Status begin();
  // The first source is the server that answers: of runs whose server is not among the sources its own list counts. Every other
  // run is told by the server that has it. A source that does not answer (UNAVAILABLE) is left out, the first one never.
  engine::Status run(const std::vector<Source>& sources, v1::ListRunsResponse& response) const;

 private:
  struct Front;
  bool fill(Front& front, const std::vector<Source>& sources, engine::Status& status) const;
  [[nodiscard]] bool was_told(const v1::RunSummary& run, Front& front) const;

  const v1::ListRunsRequest& request_;
  int size_ = 100;
  bool continues_ = false;
  // The last run of the page before.
  std::int64_t worst_ = 0;
  std::int64_t last_report_ms_ = 0;
  std::string instance_;
  std::string run_uid_;
};

}  // namespace scalewatch::fleet
