// A stretch: up to 128 consecutive reports of one stream, turned from payloads into chunks and back (see FORMAT.md, "Stretch").
//
// Lossless: a report rebuilt from a stretch folds as the one that was taken in, for what is not in its records' columns (scaler
// observations, losses, client statistics, the order and ids of its blocks) is kept beside them. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scalewatch/v1/ingest.pb.h"
#include "server/history/chunk_row.h"
#include "server/history/sqlite.h"

namespace scalewatch::history {

// What a stream's table says of a tensor.
struct TableTensor {
  std::string name;
  std::uint64_t numel = 0;
};

// A stream's table, by tensor id. Ends before a delta that can't be read.
// `whole`, when asked for: false when a part of it can't be read that did not come again.
std::vector<TableTensor> stored_table(Connection& connection, std::int64_t stream, bool* whole = nullptr);

class StretchBuilder {
 public:
  // `table` by tensor id; must outlive the builder.
  explicit StretchBuilder(const std::vector<TableTensor>& table);
  ~StretchBuilder();

  // Reports come in order of attempt. False, and nothing is added, for one that can't be packed: it does not parse, it names a
  // tensor twice, or its attempt does not rise.
  bool add(std::uint64_t attempt, std::string_view payload);
  [[nodiscard]] std::size_t size() const { return reports_.size(); }
  // Of the report at `place`: some element is NaN or infinite.
  [[nodiscard]] bool non_finite(std::size_t place) const;
  // Calls `take` for each chunk that has records, in order of blocks.
  void chunks(const std::function<void(ChunkRow)>& take);
  // What is not in the chunks; call it last.
  std::string attempts() const;
  std::string detail();

 private:
  struct Indexed;
  const std::vector<TableTensor>& table_;
  std::vector<std::uint64_t> attempts_;
  std::vector<std::unique_ptr<Indexed>> reports_;
};

// Attempts of a stretch, 1 to 128 that rise, as in stretches.attempts.
std::string write_attempts(std::span<const std::uint64_t> attempts);
// Attempts of a stretch, from stretches.attempts. Empty for bytes that are none.
std::vector<std::uint64_t> read_attempts(std::string_view bytes, std::size_t reports);

// Rebuilds reports from stretches.detail and the frames of their tensors.
class StretchDetail {
 public:
  // False for bytes that are none.
  bool open(std::string_view bytes, std::size_t reports);
  // The report at `place` as a message; absent when the file is damaged. `record` gives the record of a tensor at that place.
  std::optional<v1::Report> rebuild(std::size_t place, const std::function<std::optional<Measured>(std::uint32_t id)>& record,
                                    const std::function<std::uint64_t(std::uint32_t id)>& numel) const;
  // Its blocks alone, without what is in the frames.
  std::optional<v1::Report> bare_blocks(std::size_t place) const;

 private:
  std::string raw_;
  std::vector<std::string_view> skeletons_;
  struct Rest {
    std::size_t skeleton = 0;
    std::string_view bytes;
  };
  std::vector<Rest> rests_;
};

}  // namespace scalewatch::history
