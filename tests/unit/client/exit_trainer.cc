// A trainer that exits without closing its monitor.
#include <cstdlib>

#include "scalewatch/scalewatch.hpp"

int main(int /*argc*/, char** argv) {
  scalewatch::MonitorOptions options;
  options.run = "exit";
  options.server = argv[1];
  auto* monitor = new scalewatch::Monitor(options);
  monitor->begin_attempt(-1);
  monitor->end_attempt();
  if (!monitor->wait_durable(20'000)) return 1;
  for (int i = 0; i < 4; ++i) {
    monitor->begin_attempt(i);
    monitor->end_attempt();
  }
  std::exit(7);
}
