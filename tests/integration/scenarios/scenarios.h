// Reports of what went wrong in real training, played again through the client API as the trainer would have seen them.
//
// Each plays one run, named by the report's id, against the server at `server`: scalers, optimizers and tensors as that trainer
// has them, numbers as the report tells them. Throws std::runtime_error when the client refuses something or loses a report.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace scalewatch::scenarios {

struct Job {
  std::string server;  // host:port
  std::string run;
};
using Scenario = std::function<void(const Job&)>;
using Scenarios = std::map<std::string, Scenario>;  // by id

void add_scales(Scenarios& into);      // what the scale did
void add_misuses(Scenarios& into);     // wrong use of the scaler
void add_ranks(Scenarios& into);       // ranks apart, and resumes
void add_overflows(Scenarios& into);   // too large for the format
void add_underflows(Scenarios& into);  // too small for it, and no scaler

}  // namespace scalewatch::scenarios
