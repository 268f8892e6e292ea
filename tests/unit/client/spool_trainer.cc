// SERVER SPOOL_DIR ATTEMPTS SECONDS: trains with the server away until some of it lies in the spool, then dies at once. Its
// wall clock is so many seconds ahead.
#include "tests/unit/client/spool_trainer.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {
time_t ahead = 0;
}

// In place of libc's, for all that is linked.
extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, out);
  if (result == 0 && clock == CLOCK_REALTIME) out->tv_sec += ahead;
  return static_cast<int>(result);
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  ahead = std::atol(argv[4]);
  scalewatch::MonitorOptions options;
  options.run = "run";
  options.server = argv[1];
  options.buffer_bytes = 1 << 20;
  options.spool_dir = argv[2];
  options.spool_keep_free_bytes = 1;
  scalewatch::Monitor monitor(options);
  scalewatch::client_test::train_to_spool(monitor, std::atoi(argv[3]));
  while (monitor.stats().spooled_bytes == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(getpid(), SIGKILL);
}
