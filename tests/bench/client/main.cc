// scalewatch_bench_client [--json] [cost] [threads] [faults]: what monitoring costs a trainer. All parts unless some are named.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "tests/bench/client/network.h"
#include "tests/bench/client/parts.h"

namespace {

using scalewatch::bench::Figure;
using scalewatch::bench::Figures;

bool own_network = false;

struct Part {
  const char* name;
  void (*run)(Figures&);
};
constexpr Part kParts[] = {{"cost", scalewatch::bench::bench_cost},
                           {"threads", scalewatch::bench::bench_threads},
                           {"faults", [](Figures& figures) { scalewatch::bench::bench_faults(figures, own_network); }}};

void print_json(const Figures& figures) {
  std::printf("{");
  for (std::size_t i = 0; i < figures.size(); ++i) {
    std::printf("%s\"%s\": %.2f", i == 0 ? "" : ", ", figures[i].key.c_str(), figures[i].value);
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  std::vector<const Part*> parts;
  for (int i = 1; i < argc; ++i) {
    const Part* named = nullptr;
    for (const Part& part : kParts) named = std::strcmp(argv[i], part.name) == 0 ? &part : named;
    if (named != nullptr) {
      parts.push_back(named);
    } else if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else {
      std::fprintf(stderr, "usage: scalewatch_bench_client [--json] [cost] [threads] [faults]\n");
      return 2;
    }
  }
  if (parts.empty()) {
    for (const Part& part : kParts) parts.push_back(&part);
  }
  own_network = scalewatch::bench::enter_own_network();
  if (!own_network) std::fprintf(stderr, "without root: a network whose packets vanish is not measured\n");
  try {
    Figures figures;
    for (const Part* part : parts) part->run(figures);
    if (json) {
      print_json(figures);
      return 0;
    }
    for (const Figure& figure : figures) {
      std::printf("%-66s %12.1f %-12s", figure.what.c_str(), figure.value, figure.unit.c_str());
      std::printf(figure.goal.empty() ? "\n" : "goal %s\n", figure.goal.c_str());
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
