// What of the demo Scalewatch gets to see: every tensor, declared once and observed at each attempt. This is all that a trainer
// adds to be watched. Calls come from the trainer's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/demo/adam.h"
#include "deploy/demo/model.h"
#include "scalewatch/scalewatch.hpp"

namespace scalewatch::demo {

class Watch {
 public:
  // The monitor must outlive the watch. ranks > 1: weights are this rank's replica, activations its shard.
  Watch(Monitor& monitor, Model<Half>& model, const std::string& optimizer, std::uint32_t rank, std::uint32_t ranks);

  void activations(Model<Half>& model);             // after forward
  void backward(Model<Half>& model, double scale);  // after backward, before unscale: all under the scale
  void weights(Model<Half>& model, Adam& adam);     // after the scaler's update

 private:
  struct Ids {
    Monitor::TensorId value = 0;
    Monitor::TensorId gradient = 0;
    Monitor::TensorId exp_avg = 0;  // of parameters only
    Monitor::TensorId exp_avg_sq = 0;
  };

  Monitor& monitor_;
  std::vector<Ids> parameters_;
  std::vector<Ids> activations_;
};

}  // namespace scalewatch::demo
