#include "server/history/seal.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "server/engine/crc.h"

namespace scalewatch::history {

namespace {

constexpr std::string_view kTag("\xc5\xa9\x07", 3);  // 15000 << 3 | 5
constexpr std::size_t kChecksum = sizeof(std::uint32_t);
constexpr std::size_t kSeal = kTag.size() + kChecksum;

std::array<char, kChecksum> checksum(std::string_view bytes) {
  const auto sum = engine::crc32_of(bytes);
  std::array<char, kChecksum> out{};
  for (std::size_t i = 0; i < kChecksum; ++i) out[i] = static_cast<char>(sum >> (8 * i));
  return out;
}

}  // namespace

std::string sealed(std::string_view message) {
  const auto sum = checksum(message);
  std::string out;
  out.reserve(message.size() + kSeal);
  out.append(message).append(kTag).append(sum.data(), sum.size());
  return out;
}

std::optional<std::string_view> unsealed(const Query& query, int column) {
  return unsealed(query.view(column), query.connection().all_sealed());
}

std::optional<std::string_view> unsealed(std::string_view stored, bool always) {
  const auto without = [&] { return always ? std::nullopt : std::optional(stored); };
  if (stored.size() < kSeal) return without();
  const std::string_view message = stored.substr(0, stored.size() - kSeal);
  const auto sum = checksum(message);
  // The checksum decides, so that a changed tag does not pass for an older message.
  if (std::memcmp(stored.data() + stored.size() - kChecksum, sum.data(), kChecksum) == 0) return message;
  if (stored.substr(message.size(), kTag.size()) == kTag) return std::nullopt;
  return without();
}

}  // namespace scalewatch::history
