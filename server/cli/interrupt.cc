#include "server/cli/interrupt.h"

#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace scalewatch::cli {

Interrupt::Interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // The thread waits for as long as the process lives; the source is shared, so that it may outlive this object.
  std::thread([signals, source = source_]() mutable {
    int signal = 0;
    sigwait(&signals, &signal);
    source.request_stop();
    sigwait(&signals, &signal);
    std::_Exit(128 + signal);
  }).detach();
}

}  // namespace scalewatch::cli
