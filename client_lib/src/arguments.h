// What callers of the C ABI hand in, checked and turned into this library's own values.
//
// Every function throws Refused(INVALID_ARGUMENT) with a message that names what is wrong. Structs may come from a caller that
// was built against an older or newer header: what it does not have is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "client_lib/include/scalewatch/scalewatch.h"
#include "client_lib/src/devices.h"
#include "client_lib/src/sampling.h"
#include "client_lib/src/sender.h"
#include "client_lib/src/types.h"
#include "cuda/cpu/measure.h"

namespace scalewatch::client {

[[noreturn]] void refuse(const std::string& message);

// Everything that scalewatch_open is told.
struct Opening {
  Identity identity;
  SenderOptions sender;
  unsigned measure_threads = 1;
  std::uint64_t histogram_every = 0;  // 0 = never
};
[[nodiscard]] Opening opening_of(const scalewatch_options* options);

[[nodiscard]] ScalerInfo scaler_of(const char* name, const char* policy, const scalewatch_parameter* parameters,
                                   std::size_t parameter_count);
[[nodiscard]] OptimizerInfo optimizer_of(const scalewatch_optimizer* optimizer);
[[nodiscard]] TensorInfo tensor_of(const scalewatch_tensor* tensor);
[[nodiscard]] Sampling::Rule rule_of(const scalewatch_sampling* sampling);
[[nodiscard]] Record record_of(const scalewatch_record* record);
[[nodiscard]] StridedTensor view_of(const void* data, std::uint32_t ndim, const std::uint64_t* sizes,
                                    const std::int64_t* strides);

[[nodiscard]] DevicePlace place_of(const scalewatch_device* on);
[[nodiscard]] DeviceMeasuring measuring_of(const scalewatch_device_tensor* how, const void* data, std::uint64_t numel);
[[nodiscard]] scalewatch_device_scaler state_of(const scalewatch_device_scaler* state);

// Texts of a misuse event, within the caller's memory.
[[nodiscard]] std::string_view misuse_kind(const char* kind);
[[nodiscard]] std::string_view misuse_detail(const char* detail);

// Copies a struct made here to a caller that may know fewer or more fields; its size must be set.
void hand_out(const scalewatch_stats& made, scalewatch_stats* to);

}  // namespace scalewatch::client
