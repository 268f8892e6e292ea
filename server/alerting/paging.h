// Lists that come page by page: what a request asks for, and where its page ends. Pure.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine/ports/read_api.h"

namespace scalewatch::alerting {

template <class Cursor>
struct Page {
  static constexpr int kMax = 1000;
  static constexpr int kDefault = 100;

  std::size_t size = kDefault;
  std::optional<Cursor> after{};  // the last row of the page before; absent: this is the first

  // From a request's page_size and page_token, which `cursor_of` reads.
  template <class Request>
  engine::Status read(const Request& request, std::optional<Cursor> (*cursor_of)(std::string_view)) {
    if (request.page_size() < 0 || request.page_size() > kMax) {
      return {engine::Status::kInvalidArgument, fmt::format("page_size must be 0 to {}", kMax)};
    }
    if (request.page_size() > 0) size = static_cast<std::size_t>(request.page_size());
    if (request.page_token().empty()) return {};
    after = cursor_of(request.page_token());
    if (after) return {};
    return {engine::Status::kInvalidArgument,
            "page_token is not one that this server gave out; leave it empty for the first page"};
  }
  // Of rows that were read, one more than `size`, those of this page. The last one's token, when more follow, else an empty
  // one.
  template <class Row>
  std::string cut(std::vector<Row>& rows, std::string (*token_of)(const Row&)) const {
    if (rows.size() <= size) return {};
    rows.resize(size);
    return token_of(rows.back());
  }
};

}  // namespace scalewatch::alerting
