// One format alone: the first byte says which, the second how the rest is cut into blocks.
#include <memory>
#include <string>
#include <vector>

#include "server/logimport/format.h"
#include "tests/fuzz/logs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace scalewatch::logimport;
  static CheckedSink sink;
  static const auto readers = [] {
    std::vector<std::unique_ptr<LogReader>> all;
    for (const std::string_view name : format_names()) all.push_back(std::make_unique<LogReader>(sink, name));
    return all;
  }();
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  read_in_blocks(*readers[data[0] % readers.size()], bytes, data[1] + std::size_t{1});
  return 0;
}
