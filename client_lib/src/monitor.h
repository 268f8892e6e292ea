// What a scalewatch_monitor handle is: the recorder, the mailbox, and the client's thread between attempt 1 and close.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "client_lib/src/arguments.h"
#include "client_lib/src/mailbox.h"
#include "client_lib/src/recorder.h"
#include "client_lib/src/sender.h"
#include "client_lib/src/types.h"

namespace scalewatch::client {

class Monitor {
 public:
  explicit Monitor(Opening opening);
  // Stops without a goodbye if close() was not called.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // All throw Refused.
  std::uint32_t add_scaler(ScalerInfo info);
  std::uint32_t add_optimizer(OptimizerInfo info);
  void require_scaler(std::uint32_t id) const;
  void begin(std::int64_t step);

  [[nodiscard]] Recorder& recorder() noexcept { return recorder_; }
  [[nodiscard]] const Mailbox& mailbox() const noexcept { return mailbox_; }
  [[nodiscard]] const Identity& identity() const noexcept { return identity_; }
  [[nodiscard]] bool stopped() const noexcept { return mailbox_.stopped(); }
  // close() left the client's thread behind, which goes on using this object: it must never be destroyed.
  [[nodiscard]] bool abandoned() const noexcept { return abandoned_; }
  [[nodiscard]] unsigned generation() const noexcept { return generation_; }

  // Ends the client's thread within the time (and 5 s at most for what can't be cancelled); true when every report is durable.
  bool close(Mailbox::Clock::duration flush, std::string reason, bool say_goodbye);
  // The same in two parts, so that several monitors can close at the same time.
  void start_closing(Mailbox::Clock::time_point deadline, std::string reason, bool say_goodbye);
  bool finish_closing();

 private:
  const unsigned generation_;  // of the process that made it
  SenderOptions options_;
  Identity identity_;
  Mailbox mailbox_;
  Recorder recorder_;
  const bool histograms_;
  std::thread thread_;
  bool prepared_ = false;
  bool started_ = false;
  bool closed_ = false;
  bool asked_ = false;  // the client's thread was told to end
  bool abandoned_ = false;
  Mailbox::Clock::time_point deadline_;
};

}  // namespace scalewatch::client
