// Where logs come from: files, standard input, compressed or not, finished or still being written.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/logimport/reader.h"

namespace scalewatch::logimport {

// A file that can't be opened or read. what() names it and says why, in one line.
class SourceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SourceOptions {
  // Goes on at the end of the last file, as tail -F does, until *stop is true: a file that is replaced (rotated) or truncated
  // is read from its beginning again, as a new file of the same index. Not for compressed files.
  bool follow = false;
  const std::atomic<bool>* stop = nullptr;  // looked at between blocks and while waiting; may be set by a signal handler
  std::chrono::milliseconds poll{200};      // how often a followed file is looked at
  // done and total bytes as they lie on disk; total 0 where it is not known (a pipe). Called for every block of 256 KiB.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
  // All that was written so far has been read: once a file, and with follow each time before waiting.
  std::function<void()> idle;
};

struct SourceReport {
  std::vector<std::string> notes;  // what was not as it should be: a compressed file that ends too early. One line each.
};

// Reads files in order; "-" is standard input. gzip is known by its first bytes, whatever the name. Throws SourceError; what
// was read before stays read. Memory: two blocks of 256 KiB.
SourceReport read_logs(const std::vector<std::string>& paths, const SourceOptions& options, LogReader& reader);

}  // namespace scalewatch::logimport
