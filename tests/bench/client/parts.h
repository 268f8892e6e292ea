// The parts of the client's benchmark. Each adds its figures to the results.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace scalewatch::bench {

struct Figure {
  std::string key;   // for --json
  std::string what;  // for people
  double value = 0;
  std::string unit;
  std::string goal;  // "" = none
};
using Figures = std::vector<Figure>;

void bench_cost(Figures& figures);                      // the trainer's thread, packing
void bench_threads(Figures& figures);                   // the client's threads and memory
void bench_faults(Figures& figures, bool own_network);  // the trainer's time per attempt while the server is in trouble

}  // namespace scalewatch::bench
