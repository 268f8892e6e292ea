// All formats at once, as for a file of which nothing is known. The first byte says how the rest is cut into blocks.
#include <memory>

#include "tests/fuzz/logs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace scalewatch::logimport;
  static CheckedSink sink;
  static LogReader reader(sink);
  if (size < 1) return 0;
  read_in_blocks(reader, {reinterpret_cast<const char*>(data) + 1, size - 1}, (data[0] + std::size_t{1}) * 16);
  return 0;
}
