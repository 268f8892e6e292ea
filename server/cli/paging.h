// Reads a paged list to its end or to a limit.
#pragma once

#include <algorithm>
#include <cstdint>

namespace scalewatch::cli {

// The server's largest page, and the most items that a command reads.
inline constexpr std::uint32_t kMaxPage = 1000;
inline constexpr std::uint32_t kMaxItems = 1'000'000;

// Calls `fetch(request)` page by page and gathers the field that `items(response)` points to, at most `limit` items.
// The result's next_page_token is empty when the list was read to its end.
template <class Response, class Request, class Fetch, class Items>
Response read_pages(Request request, std::uint32_t limit, const Fetch& fetch, const Items& items) {
  // Pages may be short, but not without end.
  constexpr std::uint32_t kMaxPages = 10'000;
  Response all;
  for (std::uint32_t page = 0; page < kMaxPages; ++page) {
    const auto rest = limit - static_cast<std::uint32_t>(items(all)->size());
    request.set_page_size(static_cast<std::int32_t>(std::min(rest, kMaxPage)));
    Response response = fetch(request);
    const int wanted = static_cast<int>(std::min<std::uint32_t>(rest, static_cast<std::uint32_t>(items(response)->size())));
    for (int i = 0; i < wanted; ++i) items(all)->Add()->Swap(items(response)->Mutable(i));
    all.set_next_page_token(response.next_page_token());
    if (response.next_page_token().empty() || items(all)->size() >= static_cast<int>(limit)) break;
    request.set_page_token(response.next_page_token());
  }
  return all;
}

}  // namespace scalewatch::cli
