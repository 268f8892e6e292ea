#include "deploy/demo/watch.h"

namespace scalewatch::demo {

Watch::Watch(Monitor& monitor, Model<Half>& model, const std::string& optimizer, std::uint32_t rank, std::uint32_t ranks)
    : monitor_(monitor) {
  const std::string own = ranks > 1 ? std::to_string(rank) : "";
  const auto add = [&](const auto& tensor, const std::string& suffix, scalewatch_role role, scalewatch_dtype dtype,
                       bool weight) {
    TensorOptions options;
    options.name = tensor.name + suffix;
    options.role = role;
    options.dtype = dtype;
    options.numel = tensor.value.size();
    options.forward_index = tensor.forward_index;
    if (weight) {
      options.optimizer = optimizer;
      options.replica = own;  // every rank holds the whole of it
    } else {
      options.shard = own;  // every rank has its part of the batch
    }
    return monitor_.add_tensor(options);
  };
  for (const auto& activation : model.activations()) {
    Ids ids;
    ids.value = add(activation, "", SCALEWATCH_ACTIVATION, SCALEWATCH_FP16, false);
    ids.gradient = add(activation, "", SCALEWATCH_ACTIVATION_GRADIENT, SCALEWATCH_FP16, false);
    activations_.push_back(ids);
  }
  for (const auto& parameter : model.parameters()) {
    Ids ids;
    ids.value = add(parameter, "", SCALEWATCH_PARAMETER, SCALEWATCH_FP32, true);
    ids.gradient = add(parameter, "", SCALEWATCH_GRADIENT, SCALEWATCH_FP16, true);
    ids.exp_avg = add(parameter, ".exp_avg", SCALEWATCH_OPTIMIZER_STATE, SCALEWATCH_FP32, true);
    ids.exp_avg_sq = add(parameter, ".exp_avg_sq", SCALEWATCH_OPTIMIZER_STATE, SCALEWATCH_FP32, true);
    parameters_.push_back(ids);
  }
}

void Watch::activations(Model<Half>& model) {
  for (std::size_t i = 0; i < activations_.size(); ++i) {
    const auto& value = model.activations()[i].value;
    monitor_.observe(activations_[i].value, value.data(), value.size());
  }
}

void Watch::backward(Model<Half>& model, double scale) {
  for (std::size_t i = activations_.size(); i-- > 0;) {
    const auto& gradient = model.activations()[i].gradient;
    monitor_.observe(activations_[i].gradient, gradient.data(), gradient.size(), scale);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& gradient = model.parameters()[i].gradient;
    monitor_.observe(parameters_[i].gradient, gradient.data(), gradient.size(), scale);
  }
}

void Watch::weights(Model<Half>& model, Adam& adam) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& master = model.parameters()[i].master;
    const auto& state = adam.states()[i];
    monitor_.observe(parameters_[i].value, master.data(), master.size());
    // The state is kept and used in fp32, so fp32 is what it is judged against.
    monitor_.observe(parameters_[i].exp_avg, state.exp_avg.data(), state.exp_avg.size(), 1, SCALEWATCH_FP32);
    monitor_.observe(parameters_[i].exp_avg_sq, state.exp_avg_sq.data(), state.exp_avg_sq.size(), 1, SCALEWATCH_FP32);
  }
}

}  // namespace scalewatch::demo
