// What a scalewatch_monitor handle is: the recorder, the mailbox, and the client's thread between attempt 1 and close.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "client_lib/src/mailbox.h"
#include "client_lib/src/recorder.h"
#include "client_lib/src/types.h"

namespace scalewatch::client {

class Monitor {
 public:
  Monitor(std::string server, Identity identity, std::uint64_t buffer_bytes);
  // Stops without a goodbye if close() was not called.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // All throw Refused.
  std::uint32_t add_scaler(ScalerInfo info);
  std::uint32_t add_optimizer(OptimizerInfo info);
  void begin(std::int64_t step);

  [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }
  [[nodiscard]] const Mailbox& mailbox() const noexcept { return mailbox_; }
  [[nodiscard]] const Identity& identity() const noexcept { return identity_; }
  [[nodiscard]] bool stopped() const noexcept { return mailbox_.stopped(); }
  [[nodiscard]] unsigned generation() const noexcept { return generation_; }

  // Ends the client's thread within the time; true when every report is durable.
  bool close(Mailbox::Clock::duration flush, std::string reason, bool say_goodbye);

 private:
  const unsigned generation_;  // of the process that made it
  const std::string server_;
  const std::uint64_t buffer_bytes_;
  Identity identity_;
  Mailbox mailbox_;
  Recorder recorder_;
  std::thread thread_;
  bool started_ = false;
};

}  // namespace scalewatch::client
