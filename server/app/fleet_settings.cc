#include "server/app/settings.h"

namespace scalewatch::app {

void add_fleet_settings(fleet::Options& options, std::vector<Setting>& all) {
  all.push_back(
      text("fleet.instances", options.instances,
           "servers that share the runs, name=host:port of gRPC, separated by commas; the same on each; empty = alone"));
  all.push_back(text("fleet.self", options.self, "this server's name among them"));
  all.push_back(text("fleet.token_file", options.token_file,
                     "file with the token, for all runs, that this server shows to the others; empty = none"));
  all.push_back(
      text("fleet.ca", options.ca, "PEM file of authorities of the others' certificates; empty = they are called without TLS"));
  all.push_back(duration("fleet.probe_every", options.probe_every, 50, 60'000, "the others are asked whether they are there"));
  all.push_back(
      duration("fleet.down_after", options.down_after, 200, 600'000, "one that does not answer for this long is gone"));
  all.push_back(duration("fleet.drain_for", options.drain_for, 0, 600'000,
                         "a stopping server waits this long for its runs to be in the shared history"));
}

}  // namespace scalewatch::app
