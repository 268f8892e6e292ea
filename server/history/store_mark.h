// `history.mark`: what was durable last, kept outside of the file that must hold it, so that commits which are gone are
// noticed.
//
// Two lines of kLine bytes, written in turn, each with its own checksum:
//   scalewatch-mark 1 store=<32 hex> commit=<n> time_ms=<n> base=<n> log=<16 hex> crc=<8 hex>
// The file may lag behind the store (after a power cut the newest lines may be missing), and is never ahead of it: a line is
// written once its commit is durable. So a mark that names a later commit than the store holds means that commits are lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace scalewatch::history {

struct Mark {
  std::string store;         // store_state.uid
  std::uint64_t commit = 0;  // number of the newest durable commit
  std::int64_t time_ms = 0;  // when it was, server's clock
  std::uint64_t base = 0;    // a commit that history.db held alone when its write-ahead log began; 0 = not known
  std::uint64_t log_id = 0;  // both salts of that log; 0 = there was none
  bool operator==(const Mark&) const = default;
};

// The newest line that is whole; absent when there is none or no file.
std::optional<Mark> read_mark(const std::filesystem::path& file);

// Not thread-safe.
class MarkWriter {
 public:
  static constexpr std::size_t kLine = 256;

  // Makes the file where it is missing. A mark that cannot be written is done without, with a word in the log: what is durable
  // is so without it.
  explicit MarkWriter(const std::filesystem::path& file);
  ~MarkWriter();
  MarkWriter(const MarkWriter&) = delete;
  MarkWriter& operator=(const MarkWriter&) = delete;

  // In place of all that is there, and on disk when it returns.
  void begin(const Mark& mark) const noexcept;
  // One small write.
  void write(const Mark& mark) const noexcept { write_line(mark, mark.commit % 2); }

 private:
  void write_line(const Mark& mark, std::uint64_t number) const noexcept;
  int descriptor_ = -1;
};

}  // namespace scalewatch::history
