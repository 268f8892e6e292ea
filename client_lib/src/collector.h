// Makes reports of what the trainer posted: client's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client_lib/src/device_results.h"
#include "client_lib/src/mailbox.h"
#include "client_lib/src/pack.h"
#include "client_lib/src/ring.h"
#include "client_lib/src/sampling.h"
#include "client_lib/src/send_buffer.h"
#include "client_lib/src/types.h"
#include "client_lib/src/unpack.h"

namespace scalewatch::client {

// What one incarnation has to send.
struct Outbox {
  std::string identity;  // packed
  TableHash hash;        // of the tensors in the buffer's table; of none when that isn't known
  SendBuffer buffer;
};

class Collector {
 public:
  // Everything must outlive the collector. name: of run and rank, for people. Reports go to out, and what became of those that
  // did not to status.
  Collector(Mailbox& mailbox, const std::string& name, const Sampling& sampling, Devices& devices, Ring ring, Outbox& out,
            Status& status);

  // Takes what was posted meanwhile. stopped: the client stopped for good; attempts are counted and let go.
  void collect(bool stopped);

  // What was posted and is not collected yet, and whether the trainer closes.
  [[nodiscard]] const Mailbox::Mail& mail() const { return mail_; }
  // What the server wants; it is worked out at the next collect().
  [[nodiscard]] Directives& directives() { return directives_; }

 private:
  using Clock = Mailbox::Clock;

  void collect_tensors();
  void collect_attempts(bool stopped);
  void collect(const Attempt& attempt);
  bool settle(Attempt& attempt);
  void tell_device_faults();
  void note_lost_before(std::uint64_t attempt);
  void flush_ring();
  void direct();

  Mailbox& mailbox_;
  const std::string& name_;
  const Sampling& sampling_;
  Outbox& out_;
  Status& status_;
  Mailbox::Mail mail_;
  DeviceResults device_results_;
  std::vector<std::string> device_lines_;  // to be said on stderr
  std::uint64_t waiting_for_ = 0;          // attempt whose GPUs are not done
  Clock::time_point waiting_since_;
  Clock::time_point closing_since_;
  ReportPacker packer_;
  Ring ring_;
  Directives directives_;
  std::vector<TensorInfo> table_;
  std::vector<Misuse> misuse_;  // of the attempt that is being packed
  std::uint64_t attempt_ = 0;   // the newest that was collected
  bool failing_ = false;        // that attempt failed
};

}  // namespace scalewatch::client
