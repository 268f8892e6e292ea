// A trainer whose tensors lie on GPUs of the fake driver.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scalewatch/scalewatch.hpp"
#include "tests/fake_cuda/fake_cuda.h"

namespace scalewatch::client_test {

// Numbers on a GPU, which the host may look at too.
class OnGpu {
 public:
  template <class T>
  OnGpu(int device, const std::vector<T>& values) : address_(fake_cuda::make_memory(device, values.size() * sizeof(T))) {
    std::memcpy(reinterpret_cast<void*>(address_), values.data(), values.size() * sizeof(T));
  }
  ~OnGpu() { fake_cuda::free_memory(address_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  std::uint64_t address_;
};

// Gradients on two GPUs, a transient activation, a scaler on GPU 0, and one gradient in host memory.
class DeviceTrainer {
 public:
  explicit DeviceTrainer(const std::string& server, std::uint32_t histogram_every = 100) {
    MonitorOptions options;
    options.run = "gpu run";
    options.server = server;
    options.histogram_every = histogram_every;
    monitor_ = std::make_unique<Monitor>(options);
    scaler_ = monitor_->add_scaler("default", "pytorch");
    optimizer_ = monitor_->add_optimizer({});
    const auto add = [this](const char* name, scalewatch_role role, std::uint64_t numel) {
      return monitor_->add_tensor({name, role, SCALEWATCH_FP32, numel, 0, "", "", ""});
    };
    first_ = add("first", SCALEWATCH_GRADIENT, kNumel);
    second_ = add("second", SCALEWATCH_GRADIENT, kNumel);
    activation_ = add("activation", SCALEWATCH_ACTIVATION, kNumel);
    host_ = add("host", SCALEWATCH_GRADIENT, 1);
    fake_cuda::make_current(0);
  }

  // One step in PyTorch's order; nothing that it calls may fail.
  bool attempt(float value = 1, float found_inf = 0) {
    Monitor& m = *monitor_;
    const Gpu gpu{0, streams_[0]};
    // In the order of the stream: what was observed before is still to be measured.
    update_on(streams_[0], [this, value, found_inf] {
      data_[0].as<float>()[0] = value;
      found_inf_.as<float>()[0] = found_inf;
    });
    bool ok = m.begin_attempt(++step_);
    DeviceTensorOptions transient;
    transient.transient = true;
    ok = m.observe_device(activation_, data_[2].as<void>(), kNumel, gpu, transient) && ok;
    DeviceTensorOptions scaled;
    scaled.scale_at = scale_.as<float>();
    ok = m.observe_device(first_, data_[0].as<void>(), kNumel, gpu, scaled) && ok;
    ok = m.observe_device(second_, data_[1].as<void>(), kNumel, {1, streams_[1]}) && ok;
    const float host = 5;
    ok = m.observe(host_, &host, 1) && ok;
    ok = m.measure_device() && ok;
    ok = m.observe_optimizer_device(scaler_, optimizer_, gpu, found_inf_.as<float>(), found_inf_.as<float>()) && ok;
    ok = m.observe_scaler_device(scaler_, gpu, scale_.as<float>()) && ok;
    ok = m.measure_device() && ok;
    update_on(streams_[0], [this] {  // the scaler's update
      *scale_.as<float>() = *found_inf_.as<float>() > 0 ? 512 : 1024;
      ++*tracker_.as<std::int32_t>();
    });
    ok = m.observe_scaler_device(scaler_, gpu, nullptr, scale_.as<float>(), tracker_.as<std::int32_t>()) && ok;
    return m.end_attempt() && ok;
  }

  // How the trainer's own work gets onto a stream.
  void (*update_on)(void* stream, std::function<void()> work) = fake_cuda::enqueue;
  static constexpr std::uint64_t kNumel = 3;
  [[nodiscard]] Monitor& monitor() { return *monitor_; }
  [[nodiscard]] void* stream(int device) { return streams_[device]; }
  [[nodiscard]] std::uint32_t first() const { return first_; }
  [[nodiscard]] std::uint32_t second() const { return second_; }
  [[nodiscard]] std::uint32_t host() const { return host_; }
  [[nodiscard]] const OnGpu& data(int i) const { return data_[i]; }
  void next_step() { ++step_; }

 private:
  OnGpu data_[3] = {{0, std::vector<float>{1, 2, 3}}, {1, std::vector<float>{4, 5, 6}}, {0, std::vector<float>{7, 8, 9}}};
  OnGpu scale_{0, std::vector<float>{1024}}, found_inf_{0, std::vector<float>{0}}, tracker_{0, std::vector<std::int32_t>{0}};
  void* streams_[2] = {fake_cuda::make_stream(0), fake_cuda::make_stream(1)};
  std::unique_ptr<Monitor> monitor_;
  std::uint32_t scaler_ = 0, optimizer_ = 0, first_ = 0, second_ = 0, activation_ = 0, host_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace scalewatch::client_test
