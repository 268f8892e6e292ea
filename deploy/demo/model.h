// A character-level language model: embedding of the last characters, three residual ReLU layers, softmax cross-entropy.
//
//   x0 = embed[inputs]                      (context × width values a sample)
//   x(l+1) = x(l) + relu(x(l) · W(l) + b(l))
//   logits = x3 · H + c,   loss = mean of weight × cross-entropy
//
// Model<Half> computes forward and backward in fp16 with fp32 master weights; softmax and loss are taken in fp32, as autocast
// does. Model<double> is the same code without rounding. Not thread-safe. All tensors stay where they are in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "deploy/demo/arithmetic.h"
#include "deploy/demo/data.h"

namespace scalewatch::demo {

struct Shape {
  std::size_t vocabulary = 0;
  std::size_t context = 8;  // characters seen
  std::size_t width = 16;   // values of a character's embedding
  std::size_t layers = 3;
  [[nodiscard]] std::size_t hidden() const { return context * width; }
};

template <class T>
class Model {
 public:
  using Acc = Accumulator<T>;

  struct Parameter {
    std::string name;                 // e.g. "block1.fc.weight"
    std::uint32_t forward_index = 0;  // equal to its module's output
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::vector<Acc> master;  // what the optimizer steps
    std::vector<T> value;     // the copy that the computation uses
    std::vector<T> gradient;  // under the loss scale
  };
  struct Activation {
    std::string name;  // e.g. "block1.fc.out"
    std::uint32_t forward_index = 0;
    std::vector<T> value;
    std::vector<T> gradient;  // under the loss scale
  };

  Model(Shape shape, std::size_t batch, std::uint64_t seed);

  // Rounds the master weights into the computation's copy, runs forward and returns the loss.
  double forward(const Batch& batch);
  // Fills all gradients of scale × the loss of the last forward().
  void backward(const Batch& batch, double scale);

  std::vector<Parameter>& parameters() { return parameters_; }
  std::vector<Activation>& activations() { return activations_; }

 private:
  struct Layer {
    std::size_t weight = 0;  // indices into parameters_ and activations_
    std::size_t bias = 0;
    std::size_t in = 0;
    std::size_t fc = 0;
    std::size_t out = 0;
  };

  std::size_t add_parameter(const std::string& name, std::uint32_t index, std::size_t rows, std::size_t cols, double deviation,
                            Random& random);
  std::size_t add_activation(const std::string& name, std::uint32_t index, std::size_t cols);
  // activations_[out] = activations_[in] · weight + bias
  void linear(std::size_t in, std::size_t weight, std::size_t bias, std::size_t out);
  // The gradients of linear(); returns the gradient with respect to its input.
  std::vector<T> linear_backward(std::size_t in, std::size_t weight, std::size_t bias, std::size_t out);

  Shape shape_;
  std::size_t batch_;
  std::vector<Parameter> parameters_;
  std::vector<Activation> activations_;
  std::vector<Layer> layers_;
  std::size_t embed_ = 0;
  std::size_t head_weight_ = 0;
  std::size_t head_bias_ = 0;
  std::size_t embedded_ = 0;
  std::size_t logits_ = 0;
  std::vector<Acc> probabilities_;  // batch × vocabulary, of the last forward()
};

extern template class Model<Half>;
extern template class Model<double>;

}  // namespace scalewatch::demo
