#include "server/history/store_mark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>

#include "server/engine/crc.h"

namespace scalewatch::history {

namespace {

std::string without_checksum(const Mark& mark) {
  return fmt::format("scalewatch-mark 1 store={} commit={} time_ms={} base={} log={:016x}", mark.store, mark.commit,
                     mark.time_ms, mark.base, mark.log_id);
}

std::optional<Mark> parse(std::string_view line) {
  const auto end = line.rfind(" crc=");
  if (end == std::string_view::npos) return std::nullopt;
  std::array<char, 33> store{};
  unsigned long long commit = 0;
  long long time_ms = 0;
  unsigned long long base = 0;
  unsigned long long log = 0;
  unsigned crc = 0;
  const std::string text(line);
  if (std::sscanf(text.c_str(), "scalewatch-mark 1 store=%32s commit=%llu time_ms=%lld base=%llu log=%llx crc=%x", store.data(),
                  &commit, &time_ms, &base, &log, &crc) != 6 ||
      crc != engine::crc32_of(line.substr(0, end))) {
    return std::nullopt;
  }
  return Mark{store.data(), commit, time_ms, base, log};
}

}  // namespace

std::optional<Mark> read_mark(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  std::optional<Mark> newest;
  for (const off_t at : {off_t{0}, static_cast<off_t>(MarkWriter::kLine)}) {
    std::array<char, MarkWriter::kLine> line{};
    const ssize_t size = ::pread(descriptor, line.data(), line.size(), at);
    if (size <= 0) continue;
    auto mark = parse(std::string_view(line.data(), static_cast<std::size_t>(size)));
    if (mark && (!newest || mark->commit > newest->commit)) newest = std::move(mark);
  }
  ::close(descriptor);
  return newest;
}

MarkWriter::MarkWriter(const std::filesystem::path& file)
    // Whatever stands in its place, it is not waited for.
    : descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644)) {
  if (descriptor_ >= 0) return;
  spdlog::warn("{}: cannot be written: {}; if commits were lost with the files beside it, nothing would tell", file.string(),
               std::system_category().message(errno));
}

MarkWriter::~MarkWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MarkWriter::begin(const Mark& mark) const noexcept {
  for (const std::uint64_t line : {0, 1}) write_line(mark, line);
  if (descriptor_ >= 0) ::fdatasync(descriptor_);
}

void MarkWriter::write_line(const Mark& mark, std::uint64_t number) const noexcept {
  if (descriptor_ < 0) return;
  std::array<char, kLine> line{};
  line.fill(' ');
  line.back() = '\n';
  try {
    const std::string text = without_checksum(mark);
    const std::string whole = fmt::format("{} crc={:08x}", text, engine::crc32_of(text));
    std::memcpy(line.data(), whole.data(), std::min(whole.size(), line.size() - 1));
  } catch (...) {
    return;
  }
  [[maybe_unused]] const ssize_t size = ::pwrite(descriptor_, line.data(), line.size(), static_cast<off_t>(number * kLine));
}

}  // namespace scalewatch::history
