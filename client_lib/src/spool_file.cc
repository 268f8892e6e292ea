#include "client_lib/src/spool_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>

namespace scalewatch::client {
namespace {

constexpr std::string_view kMagic = "SWSPOOL1";
constexpr std::size_t kMostNames = 1U << 16;
constexpr std::size_t kSeqDigits = 20;
constexpr std::string_view kSegmentEnd = ".seg";
using HeadBytes = std::array<char, kSpoolHeadBytes>;

std::uint32_t checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

template <typename T>
void put(char* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

template <typename T>
T get(const char* from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  return static_cast<T>(value);
}

std::string_view after_crc(const HeadBytes& bytes) {
  return std::string_view(bytes.data(), bytes.size()).substr(4);
}

HeadBytes encode(const SpoolHead& head) {
  HeadBytes bytes{};
  put(&bytes[4], head.message_crc);
  put(&bytes[8], head.message_bytes);
  bytes[12] = head.full ? 1 : 0;
  bytes[13] = static_cast<char>(head.cause);
  put(&bytes[16], head.first_seq);
  put(&bytes[24], head.last_seq);
  put(&bytes[32], head.attempt);
  put(&bytes[40], head.time_ms);
  put(&bytes[0], checksum(after_crc(bytes)));
  return bytes;
}

SpoolHead decode(const HeadBytes& bytes) {
  SpoolHead head;
  head.message_crc = get<std::uint32_t>(&bytes[4]);
  head.message_bytes = get<std::uint32_t>(&bytes[8]);
  head.full = bytes[12] != 0;
  head.cause = static_cast<std::uint8_t>(bytes[13]);
  head.first_seq = get<std::uint64_t>(&bytes[16]);
  head.last_seq = get<std::uint64_t>(&bytes[24]);
  head.attempt = get<std::uint64_t>(&bytes[32]);
  head.time_ms = get<std::int64_t>(&bytes[40]);
  return head;
}

SpoolRead cause_of(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM ? SpoolRead::kNotNow : SpoolRead::kDamaged;
}

// A file that ends within the range is damaged.
SpoolRead read_range(int file, std::uint64_t offset, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t got = pread(file, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cause_of(errno);
    if (got == 0) return SpoolRead::kDamaged;
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return SpoolRead::kOk;
}

bool write_range(int file, std::uint64_t offset, std::span<iovec> from) {
  while (!from.empty()) {
    const ssize_t wrote = pwritev(file, from.data(), static_cast<int>(from.size()), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote == 0) errno = ENOSPC;
    if (wrote <= 0) return false;
    offset += static_cast<std::uint64_t>(wrote);
    auto left = static_cast<std::size_t>(wrote);
    while (!from.empty() && left >= from.front().iov_len) {
      left -= from.front().iov_len;
      from = from.subspan(1);
    }
    if (!from.empty()) {
      from.front().iov_base = static_cast<char*>(from.front().iov_base) + left;
      from.front().iov_len -= left;
    }
  }
  return true;
}

struct CloseDirectory {
  void operator()(DIR* entries) const { closedir(entries); }
};

iovec part(std::string_view bytes) {
  return {const_cast<char*>(bytes.data()), bytes.size()};  // pwritev only reads
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this == &other) return *this;
  reset();
  value_ = std::exchange(other.value_, -1);
  return *this;
}

void Fd::reset() {
  const int kept = errno;
  if (value_ >= 0) close(value_);
  errno = kept;
  value_ = -1;
}

SpoolRead open_spool_file(int directory, const std::string& name, Fd& file) {
  file = Fd(openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return errno == ENOENT ? SpoolRead::kEnd : cause_of(errno);
  struct stat about = {};
  if (fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return SpoolRead::kDamaged;
  std::array<char, kSpoolMagicBytes> magic{};
  const SpoolRead read = read_range(file.get(), 0, magic);
  if (read != SpoolRead::kOk) return read;
  return std::string_view(magic.data(), magic.size()) == kMagic ? SpoolRead::kOk : SpoolRead::kDamaged;
}

SpoolRead read_head(int file, std::uint64_t offset, std::uint64_t first_seq, SpoolHead& head) {
  struct stat about = {};
  if (fstat(file, &about) != 0) return cause_of(errno);
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (offset == size) return SpoolRead::kEnd;
  if (offset > size || size - offset < kSpoolHeadBytes) return SpoolRead::kDamaged;
  HeadBytes bytes{};
  if (const SpoolRead read = read_range(file, offset, bytes); read != SpoolRead::kOk) return read;
  head = decode(bytes);
  const bool sound = get<std::uint32_t>(bytes.data()) == checksum(after_crc(bytes)) && head.first_seq == first_seq &&
                     head.last_seq >= first_seq && head.message_bytes <= kSpoolMaxMessage &&
                     head.record_bytes() <= size - offset;
  return sound ? SpoolRead::kOk : SpoolRead::kDamaged;
}

SpoolRead read_message(int file, std::uint64_t offset, const SpoolHead& head, std::string& message) {
  message.resize(head.message_bytes);
  const SpoolRead read = read_range(file, offset + kSpoolHeadBytes, message);
  if (read != SpoolRead::kOk) return read;
  return checksum(message) == head.message_crc ? SpoolRead::kOk : SpoolRead::kDamaged;
}

std::uint64_t file_size_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<std::int64_t>::max();
  return limit.rlim_cur;
}

std::uint64_t write_record(int file, std::uint64_t offset, SpoolHead head, std::string_view message) {
  head.message_bytes = static_cast<std::uint32_t>(message.size());
  head.message_crc = checksum(message);
  const HeadBytes bytes = encode(head);
  std::array<iovec, 3> parts{part(offset == 0 ? kMagic : ""), part({bytes.data(), bytes.size()}), part(message)};
  const std::uint64_t end = offset + parts[0].iov_len + head.record_bytes();
  if (end > file_size_limit()) {
    errno = EFBIG;
    return 0;
  }
  if (write_range(file, offset, parts)) return end;
  const int error = errno;
  // Best effort: a torn record that stays is written over by the next one or cut by the reader.
  static_cast<void>(ftruncate(file, static_cast<off_t>(offset)) == 0);
  errno = error;
  return 0;
}

std::string segment_name(std::uint64_t first_seq) {
  const std::string digits = std::to_string(first_seq);
  return std::string(kSeqDigits - digits.size(), '0') + digits + std::string(kSegmentEnd);
}

std::optional<std::uint64_t> segment_seq(std::string_view name) {
  if (name.size() != kSeqDigits + kSegmentEnd.size() || !name.ends_with(kSegmentEnd)) return std::nullopt;
  const char* end = name.data() + kSeqDigits;
  std::uint64_t seq = 0;
  const auto [stop, error] = std::from_chars(name.data(), end, seq);
  if (error != std::errc() || stop != end || seq == 0) return std::nullopt;
  return seq;
}

bool is_spool_file(std::string_view name) {
  return name == "identity" || name == "identity.new" || name == "table" || name == "lock" || segment_seq(name).has_value();
}

std::optional<std::vector<std::string>> list_directory(int directory, const std::function<bool(std::string_view)>& wanted) {
  std::vector<std::string> names;
  const int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return std::nullopt;
  const std::unique_ptr<DIR, CloseDirectory> entries(fdopendir(again));
  if (entries == nullptr) {
    close(again);
    return std::nullopt;
  }
  errno = 0;
  while (const dirent* entry = readdir(entries.get())) {
    if (names.size() == kMostNames) break;
    if (wanted(entry->d_name)) names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return std::nullopt;
  std::ranges::sort(names);
  return names;
}

std::uint64_t directory_bytes(int directory) {
  std::uint64_t bytes = 0;
  const auto names = list_directory(directory, [](std::string_view) { return true; });
  if (!names) return 0;
  for (const std::string& name : *names) {
    struct stat about = {};
    if (fstatat(directory, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode)) {
      bytes += static_cast<std::uint64_t>(about.st_size);
    }
  }
  return bytes;
}

bool delete_spool_file(int directory, const std::string& name) {
  {
    const Fd file(openat(directory, name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat about = {};
    // A hard link is somebody's copy: its bytes stay.
    if (file && fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 1) {
      static_cast<void>(ftruncate(file.get(), 0) == 0);
    }
  }
  return unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT;
}

}  // namespace scalewatch::client
