// Who showed wrong tokens too often must wait, longer each time. Thread-safe; time is given, in milliseconds of a steady clock.
//
// Whoever shares an address with a guesser is not locked out with it: a key is an address and the id of the token that was
// tried, or an address alone for ids that nobody has. Memory is bounded: of too many keys the one that failed longest ago goes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace scalewatch::auth {

class Lockout {
 public:
  static constexpr unsigned kFree = 5;                         // failures that cost no time
  static constexpr std::int64_t kFirstMs = 1000;               // then this long, twice as long with each further one
  static constexpr std::int64_t kLongestMs = 5LL * 60 * 1000;  // and never longer
  static constexpr std::int64_t kForgetMs = 60LL * 60 * 1000;  // without a failure: it begins anew
  static constexpr std::size_t kMostKeys = 4096;

  // How long this key must still wait; 0 = it may try.
  std::int64_t wait_ms(const std::string& key, std::int64_t now_ms);
  void failed(const std::string& key, std::int64_t now_ms);
  void succeeded(const std::string& key);

 private:
  struct Entry {
    unsigned failures = 0;
    std::int64_t last_ms = 0;
    std::int64_t until_ms = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace scalewatch::auth
