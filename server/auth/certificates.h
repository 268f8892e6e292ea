// The certificates of a TLS server while it runs. Their files are read again when they change; what is new counts once all of
// it fits together, so that half a renewal, a key before its certificate or a broken file breaks no connection. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/auth/tls_files.h"

namespace scalewatch::auth {

class Certificates {
 public:
  // What fits together, as it stood in the files.
  struct Set {
    std::string certificate;  // PEM, as the next
    std::string key;
    std::string client_ca;  // empty: clients are asked for none
    TlsContext context;
    std::uint64_t number = 0;  // of the set: 1, 2, ...
  };

  // Throws TlsError: the files are not what they should be.
  explicit Certificates(TlsFiles files);

  // What new connections use. Looks at the files at most once a second; a change and what is wrong with it are logged.
  std::shared_ptr<const Set> now();
  [[nodiscard]] bool asks_clients() const { return !files_.client_ca.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  void look();                           // mutex_ held
  [[nodiscard]] Set read_files() const;  // throws TlsError

  const TlsFiles files_;
  std::mutex mutex_;
  std::shared_ptr<const Set> set_;
  std::vector<FileStamp> stamps_;  // of what was read last, good or not
  Clock::time_point looked_ = Clock::now();
};

}  // namespace scalewatch::auth
