// The files of the spool: what their bytes mean, and how they are read and written.
//
// A file is 8 bytes of magic, then records. All integers are little-endian.
//   u32 crc of the 44 bytes that follow   u32 crc of the message   u32 bytes of the message
//   u8 full   u8 cause (LossCause)        u16 0
//   u64 first_seq   u64 last_seq          u64 attempt              i64 Unix ms of writing
//   the message
// seqs of a file's records follow one another without a gap. CRC-32 as in zlib. A head that fails its crc or its seq ends what
// can be read of a file; a message that fails its own crc is one known report lost.
//
//   identity              one record, whose message is packed by pack_owner()
//   table                 a record a part of the tensor table, seq 1, 2, ...
//   <first seq, 20 digits>.seg   reports and losses
//   lock                  empty, locked by the living owner
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scalewatch::client {

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int value = -1) : value_(value) {}
  Fd(Fd&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  [[nodiscard]] int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  void reset();

 private:
  int value_;
};

inline constexpr std::uint64_t kSpoolMagicBytes = 8;
inline constexpr std::uint64_t kSpoolHeadBytes = 48;
inline constexpr std::uint32_t kSpoolMaxMessage = 64U << 20;

struct SpoolHead {
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;
  std::uint64_t attempt = 0;
  std::int64_t time_ms = 0;
  bool full = false;
  std::uint8_t cause = 0;
  // Filled by write_record() and read_head().
  std::uint32_t message_bytes = 0;
  std::uint32_t message_crc = 0;

  [[nodiscard]] std::uint64_t record_bytes() const { return kSpoolHeadBytes + message_bytes; }
};

enum class SpoolRead {
  kOk,
  kEnd,      // the file ends here
  kDamaged,  // torn, flipped or unreadable
  kNotNow,   // errno: no descriptors or memory left, not the file's fault
};

// For reading, without following a link. kEnd: there is no such file.
SpoolRead open_spool_file(int directory, const std::string& name, Fd& file);
// The record at offset, whose first_seq must be as said.
SpoolRead read_head(int file, std::uint64_t offset, std::uint64_t first_seq, SpoolHead& head);
SpoolRead read_message(int file, std::uint64_t offset, const SpoolHead& head, std::string& message);

// Writes a record at offset, the magic before it when offset is 0, and returns the new end of the file. 0: errno; the file is
// as long as before, where the disk lets it. A file size limit of the process (RLIMIT_FSIZE) is EFBIG, never its signal.
std::uint64_t write_record(int file, std::uint64_t offset, SpoolHead head, std::string_view message);
// Bytes that a file may have in this process.
std::uint64_t file_size_limit();

[[nodiscard]] std::string segment_name(std::uint64_t first_seq);
[[nodiscard]] std::optional<std::uint64_t> segment_seq(std::string_view name);
// One of the names above or their makeshifts: what the spool may delete.
[[nodiscard]] bool is_spool_file(std::string_view name);

// At most 65,536 names in a directory that wanted() picks, sorted. Nothing when it can't be read: errno.
std::optional<std::vector<std::string>> list_directory(int directory, const std::function<bool(std::string_view)>& wanted);
// Bytes of the regular files in a directory.
std::uint64_t directory_bytes(int directory);
// Deletes a file and frees its bytes even where a forked child still has it open. Missing is fine. false: errno.
bool delete_spool_file(int directory, const std::string& name);

}  // namespace scalewatch::client
