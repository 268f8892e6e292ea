// SERVER SPOOL_DIR ATTEMPTS: trains with the server away until some of it lies in the spool, then dies at once.
#include "tests/unit/client/spool_trainer.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
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
