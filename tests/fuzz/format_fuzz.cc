// One format alone: the first byte says which, the second how the rest is cut into blocks. Prints how often each was run.
// $SCALEWATCH_FUZZ_FORMAT, a number, holds the first byte still, so that each format gets its share.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "server/logimport/format.h"
#include "tests/fuzz/logs.h"

namespace {

using namespace scalewatch::logimport;

class Parsers {
 public:
  Parsers() {
    for (const std::string_view name : format_names()) parsers_.push_back({std::make_unique<LogReader>(sink_, name)});
  }
  ~Parsers() {
    for (std::size_t i = 0; i < parsers_.size(); ++i) {
      std::fprintf(stderr, "parser %s %llu\n", std::string(format_names()[i]).c_str(),
                   static_cast<unsigned long long>(parsers_[i].runs));
    }
  }
  Parsers(const Parsers&) = delete;
  Parsers& operator=(const Parsers&) = delete;

  void run(std::size_t which, std::string_view bytes, std::size_t block) {
    Parser& parser = parsers_[which % parsers_.size()];
    ++parser.runs;
    read_in_blocks(*parser.reader, bytes, block);
  }

 private:
  struct Parser {
    std::unique_ptr<LogReader> reader;
    std::uint64_t runs = 0;
  };
  CheckedSink sink_;
  std::vector<Parser> parsers_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned /*seed*/) {
  static const char* const only = std::getenv("SCALEWATCH_FUZZ_FORMAT");
  size = LLVMFuzzerMutate(data, size, most);
  if (only != nullptr && size > 0) data[0] = static_cast<std::uint8_t>(std::atoi(only));
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Parsers parsers;
  if (size < 2) return 0;
  parsers.run(data[0], {reinterpret_cast<const char*>(data) + 2, size - 2}, data[1] + std::size_t{1});
  return 0;
}
