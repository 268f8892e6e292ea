// client_scenarios SERVER SCENARIO-ID: plays one scenario as the run of that name.
#include <cstdio>
#include <exception>

#include "tests/integration/scenarios/scenarios.h"

int main(int argc, char** argv) {
  using namespace scalewatch::scenarios;
  if (argc != 3) {
    std::fputs("usage: client_scenarios SERVER SCENARIO-ID\n", stderr);
    return 2;
  }
  try {
    Scenarios scenarios;
    add_scales(scenarios);
    add_misuses(scenarios);
    add_ranks(scenarios);
    add_overflows(scenarios);
    add_underflows(scenarios);
    scenarios.at(argv[2])({argv[1], argv[2]});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[2], error.what());
    return 1;
  }
  return 0;
}
