// Packs scalewatch.v1.ClientMessage without Protobuf. Pure; every result is one whole message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client_lib/src/types.h"

namespace scalewatch::client {

// FNV-1a over the tensor table in id order: name, NUL, role and dtype as a byte each, numel as 8 bytes little-endian.
class TableHash {
 public:
  void add(const TensorInfo& info) noexcept;
  [[nodiscard]] std::uint64_t value() const noexcept { return size_ == 0 ? 0 : hash_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::uint32_t size_ = 0;
};

// What does not change while a client lives: a Hello without its table and last seq.
[[nodiscard]] std::string pack_identity(const Identity& identity);
[[nodiscard]] std::string pack_hello(std::string_view packed_identity, const TableHash& table, std::uint64_t last_seq,
                                     std::uint64_t durable_seq);
[[nodiscard]] std::string pack_table(std::uint32_t version, std::uint32_t first_id, std::span<const TensorInfo> infos);
[[nodiscard]] std::string pack_loss(std::uint64_t first_seq, std::uint64_t last_seq, LossCause cause);
[[nodiscard]] std::string pack_heartbeat(std::int32_t phase);
[[nodiscard]] std::string pack_goodbye(std::uint64_t last_seq, std::string_view reason);

// What a report says about GPUs: see scalewatch.v1.ClientStats.
struct DeviceCounters {
  std::uint64_t gpu_ns = 0;
  std::uint64_t poll_calls = 0;
  std::uint64_t lost_quiet = 0, lost_busy = 0, lost_late = 0, lost_replays = 0;
  std::span<const DeviceFault> faults;
};

// What a report says about the client beside the attempt's own cost.
struct ReportCounters {
  std::uint64_t reports_sent = 0;
  std::uint64_t reports_dropped = 0;
  std::uint64_t reports_thinned = 0;
  std::uint64_t buffered_bytes = 0;
  std::uint64_t spooled_bytes = 0;
  std::uint64_t client_thread_ns = 0;
  DeviceCounters devices = {};
};

// Packs reports; keeps its columns' memory from one to the next. Both functions sort the attempt's sheet on the way.
class ReportPacker {
 public:
  // All of a report but the records that stay back (see SendMode). Histograms go along with finite records, whose statistics a
  // thinned report loses first; at most kHistogramBytes of them.
  [[nodiscard]] std::string pack(const Attempt& attempt, std::uint64_t seq, std::span<const Misuse> misuse,
                                 const ReportCounters& counters);
  // The records that pack() leaves out, as a retrospective report that has no seq yet, without histograms; empty when there are
  // none.
  [[nodiscard]] std::string pack_left_out(const Attempt& attempt);

 private:
  struct Sparse {
    std::uint32_t index;
    std::uint64_t count;
  };
  static constexpr std::size_t kHistogramBytes = 1U << 20;  // a report has to stay below what a server takes

  template <class Writer>
  void pack_block(Writer& report, std::span<const Measured> block);
  template <class Writer>
  void pack_histogram(Writer& block, std::uint32_t index, const Measured& measured);
  template <class Writer>
  void pack_blocks(Writer& report, std::span<Measured> records);

  std::vector<float> min_, max_, absmin_;
  std::vector<double> sum_, sum_sq_;
  std::vector<std::uint64_t> zero_, subnormal_, flushed_, numel_;
  std::vector<std::uint32_t> ids_;
  std::vector<Sparse> nan_, pos_inf_, neg_inf_, over_, first_bad_;
  const Histograms* histograms_ = nullptr;  // of the report that is being packed
  std::size_t histogram_bytes_ = 0;
};

// A report out of pack_left_out's.
[[nodiscard]] std::string with_seq(std::string_view left_out, std::uint64_t seq);

// How much of its statistics a report has.
enum class Fullness : std::uint8_t { kNone = 0, kBadOnly = 1, kFull = 2 };

// The same report with fewer statistics and the reason: scaler observations and all else stay. kBadOnly keeps the blocks of
// non-finite tensors that hold at most 64 of them. Empty when the report would stay as it is.
[[nodiscard]] std::string thin_report(std::string_view message, Fullness fullness, LossCause cause);

}  // namespace scalewatch::client
