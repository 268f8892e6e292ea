// The client's thread's side of GPUs: waits for what was launched, without blocking, and puts it into the attempts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client_lib/src/devices.h"
#include "client_lib/src/pack.h"
#include "client_lib/src/types.h"

namespace scalewatch::client {

class DeviceResults {
 public:
  explicit DeviceResults(Devices& devices) : devices_(devices) {}

  // Brings the attempt what its GPUs found. False: some are not done yet; ask again. give_up: what is not there now is lost,
  // and counted.
  bool settle(Attempt& attempt, bool give_up);
  // Attempts that were given up hold memory until their GPU is done with it. Call now and then.
  void reclaim();
  // GPUs that went quiet since the last call.
  [[nodiscard]] std::vector<DeviceFault> new_faults();
  // For the next report. Valid until the next new_faults().
  [[nodiscard]] DeviceCounters counters() const;

 private:
  void apply(Attempt& attempt, cuda::Batch& batch);
  void lose(Attempt& attempt, const cuda::Batch& batch, Devices::Lost cause);

  Devices& devices_;
  std::vector<cuda::Batch*> overdue_;
  std::vector<DeviceFault> faults_;
};

}  // namespace scalewatch::client
