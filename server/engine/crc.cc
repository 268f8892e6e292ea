#include "server/engine/crc.h"

#include <libdeflate.h>

namespace scalewatch::engine {

std::uint32_t crc32_of(std::string_view bytes, std::uint32_t before) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

}  // namespace scalewatch::engine
