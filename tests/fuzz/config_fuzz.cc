// A configuration file with anything in it: it is taken, or refused in one line that names the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/app/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace scalewatch::app;
  static const int file = memfd_create("config", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  Config config;
  try {
    load_file(path, config);
    bind_sinks(config);
    validate(config);
    (void)thresholds_of(config, "some run");
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    if (what.empty() || what.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
