#include "tests/bench/client/network.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace scalewatch::bench {

bool enter_own_network() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  set_loopback(true);
  return true;
}

void set_loopback(bool up) {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (up) request.ifr_flags = IFF_UP;
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool done = socket >= 0 && ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  if (socket >= 0) close(socket);
  if (!done) throw std::runtime_error("the loopback can't be switched");
}

}  // namespace scalewatch::bench
