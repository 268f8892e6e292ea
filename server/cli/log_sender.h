// Sends what a log tells to a server, as the one rank of a run: each run that the log holds is a segment. Takes the inputs that
// the log's own diagnosis is made of, so that the server comes to the same findings.
//
// A connection that breaks is made again for a minute, and what was not stored yet is sent again: at most kMaxUnstored reports
// are kept. Beats while nothing comes. take() and finish() belong to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/cli/client.h"
#include "server/domain/observation.h"

namespace scalewatch::cli {

class LogSender {
 public:
  static constexpr std::size_t kMaxUnstored = 1024;

  // Connects with the first attempt. The client must outlive it. `recorded`: nobody is to be told of what is found.
  LogSender(const Client& client, std::string run, bool recorded);
  ~LogSender();
  LogSender(const LogSender&) = delete;
  LogSender& operator=(const LogSender&) = delete;

  // Waits while the server has no room. Throws CallError.
  void take(const domain::Input& input);

  [[nodiscard]] std::uint64_t reports() const;  // that are stored
  [[nodiscard]] std::uint64_t refused() const;  // of the reports sent, those that the server did not take
  [[nodiscard]] const std::string& run_uid() const;
  [[nodiscard]] std::uint32_t segment() const;  // newest; 0 = none yet

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::cli
