#include "deploy/demo/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace scalewatch::demo {

template <class T>
Model<T>::Model(Shape shape, std::size_t batch, std::uint64_t seed) : shape_(shape), batch_(batch) {
  Random random(seed);
  const std::size_t hidden = shape.hidden();
  const double he = std::sqrt(2.0 / static_cast<double>(hidden));
  std::uint32_t index = 0;
  embed_ = add_parameter("embed.weight", index, shape.vocabulary, shape.width, 0.25, random);
  embedded_ = add_activation("embed.out", index, hidden);
  std::size_t in = embedded_;
  for (std::size_t l = 1; l <= shape.layers; ++l) {
    const std::string block = "block" + std::to_string(l);
    Layer layer;
    layer.in = in;
    layer.weight = add_parameter(block + ".fc.weight", ++index, hidden, hidden, 0.5 * he, random);
    layer.bias = add_parameter(block + ".fc.bias", index, 1, hidden, 0, random);
    layer.fc = add_activation(block + ".fc.out", index, hidden);
    layer.out = in = add_activation(block + ".out", ++index, hidden);
    layers_.push_back(layer);
  }
  head_weight_ = add_parameter("head.weight", ++index, hidden, shape.vocabulary, 0.5 * he, random);
  head_bias_ = add_parameter("head.bias", index, 1, shape.vocabulary, 0, random);
  logits_ = add_activation("head.out", index, shape.vocabulary);
  probabilities_.resize(batch * shape.vocabulary);
}

template <class T>
std::size_t Model<T>::add_parameter(const std::string& name, std::uint32_t index, std::size_t rows, std::size_t cols,
                                    double deviation, Random& random) {
  Parameter parameter;
  parameter.name = name;
  parameter.forward_index = index;
  parameter.rows = rows;
  parameter.cols = cols;
  parameter.master.resize(rows * cols);
  parameter.value.resize(rows * cols);
  parameter.gradient.resize(rows * cols);
  for (auto& weight : parameter.master) weight = static_cast<Acc>(deviation * random.normal());
  parameters_.push_back(std::move(parameter));
  return parameters_.size() - 1;
}

template <class T>
std::size_t Model<T>::add_activation(const std::string& name, std::uint32_t index, std::size_t cols) {
  Activation activation;
  activation.name = name;
  activation.forward_index = index;
  activation.value.resize(batch_ * cols);
  activation.gradient.resize(batch_ * cols);
  activations_.push_back(std::move(activation));
  return activations_.size() - 1;
}

template <class T>
void Model<T>::linear(std::size_t in, std::size_t weight, std::size_t bias, std::size_t out) {
  const Parameter& w = parameters_[weight];
  const Parameter& b = parameters_[bias];
  const auto x = widened<T>(activations_[in].value);
  const auto matrix = widened<T>(w.value);
  auto& y = activations_[out].value;
  std::vector<Acc> product(y.size());
  multiply(x, matrix, product, batch_, w.rows, w.cols);
  for (std::size_t i = 0; i < product.size(); ++i) product[i] += static_cast<Acc>(b.value[i % w.cols]);
  round_to(product, y);
}

template <class T>
double Model<T>::forward(const Batch& batch) {
  for (auto& parameter : parameters_) round_to(parameter.master, parameter.value);

  const auto& embedding = parameters_[embed_].value;
  auto& embedded = activations_[embedded_].value;
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    const auto row = embedding.begin() + static_cast<std::ptrdiff_t>(batch.inputs[i] * shape_.width);
    std::copy(row, row + static_cast<std::ptrdiff_t>(shape_.width),
              embedded.begin() + static_cast<std::ptrdiff_t>(i * shape_.width));
  }
  for (const Layer& layer : layers_) {
    linear(layer.in, layer.weight, layer.bias, layer.fc);
    const auto& x = activations_[layer.in].value;
    const auto& fc = activations_[layer.fc].value;
    auto& out = activations_[layer.out].value;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const T positive = fc[i] < T(0) ? T(0) : fc[i];  // NaN stays NaN
      out[i] = static_cast<T>(x[i] + positive);
    }
  }
  linear(layers_.back().out, head_weight_, head_bias_, logits_);

  // log-softmax with the maximum taken out; a NaN or Inf logit makes the whole row NaN, as it does everywhere.
  const auto logits = widened<T>(activations_[logits_].value);
  double loss = 0;
  for (std::size_t i = 0; i < batch_; ++i) {
    const Acc* row = logits.data() + i * shape_.vocabulary;
    Acc* p = probabilities_.data() + i * shape_.vocabulary;
    const Acc top = *std::max_element(row, row + shape_.vocabulary);
    Acc total = 0;
    for (std::size_t v = 0; v < shape_.vocabulary; ++v) total += p[v] = std::exp(row[v] - top);
    for (std::size_t v = 0; v < shape_.vocabulary; ++v) p[v] /= total;
    const Acc log_likelihood = row[batch.targets[i]] - top - std::log(total);
    loss -= static_cast<double>(batch.weights[i]) * static_cast<double>(log_likelihood);
  }
  return loss / static_cast<double>(batch_);
}

template <class T>
std::vector<T> Model<T>::linear_backward(std::size_t in, std::size_t weight, std::size_t bias, std::size_t out) {
  Parameter& w = parameters_[weight];
  Parameter& b = parameters_[bias];
  const auto dy = widened<T>(activations_[out].gradient);
  const auto x = widened<T>(activations_[in].value);
  const auto matrix = widened<T>(w.value);

  std::vector<Acc> product(w.value.size());
  multiply(transposed<Acc>(x, batch_, w.rows), dy, product, w.rows, batch_, w.cols);
  round_to(product, w.gradient);

  std::vector<Acc> sums(w.cols);
  for (std::size_t i = 0; i < dy.size(); ++i) sums[i % w.cols] += dy[i];
  round_to(sums, b.gradient);

  std::vector<Acc> back(x.size());
  multiply(dy, transposed<Acc>(matrix, w.rows, w.cols), back, batch_, w.cols, w.rows);
  std::vector<T> dx(x.size());
  round_to(back, dx);
  return dx;
}

template <class T>
void Model<T>::backward(const Batch& batch, double scale) {
  std::vector<Acc> dlogits = probabilities_;
  for (std::size_t i = 0; i < batch_; ++i) {
    Acc* row = dlogits.data() + i * shape_.vocabulary;
    row[batch.targets[i]] -= 1;
    const Acc factor = static_cast<Acc>(scale) * static_cast<Acc>(batch.weights[i]) / static_cast<Acc>(batch_);
    for (std::size_t v = 0; v < shape_.vocabulary; ++v) row[v] *= factor;
  }
  round_to(dlogits, activations_[logits_].gradient);
  activations_[layers_.back().out].gradient = linear_backward(layers_.back().out, head_weight_, head_bias_, logits_);

  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    const auto& dout = activations_[layer->out].gradient;
    const auto& fc = activations_[layer->fc].value;
    auto& dfc = activations_[layer->fc].gradient;
    for (std::size_t i = 0; i < dfc.size(); ++i) dfc[i] = fc[i] <= T(0) ? T(0) : dout[i];
    const auto through = linear_backward(layer->in, layer->weight, layer->bias, layer->fc);
    auto& dx = activations_[layer->in].gradient;
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = static_cast<T>(dout[i] + through[i]);
  }

  const auto dembedded = widened<T>(activations_[embedded_].gradient);
  std::vector<Acc> sums(parameters_[embed_].value.size());
  for (std::size_t i = 0; i < dembedded.size(); ++i) {
    sums[batch.inputs[i / shape_.width] * shape_.width + i % shape_.width] += dembedded[i];
  }
  round_to(sums, parameters_[embed_].gradient);
}

template class Model<Half>;
template class Model<double>;

}  // namespace scalewatch::demo
