// A trainer that exits without closing its monitor.
#include <cstdlib>

#include "scalewatch/scalewatch.hpp"

int main(int /*argc*/, char** argv) {
  scalewatch::MonitorOptions options;
  options.run = "exit";
  options.server = argv[1];
  auto* monitor = new scalewatch::Monitor(options);
  for (int i = 0; i < 5; ++i) {
    monitor->begin_attempt(i);
    monitor->end_attempt();
  }
  std::exit(7);
}
