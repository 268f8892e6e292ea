// A sink turns an alert and what became of it into one request. It keeps no state and does no I/O: delivery sends,
// retries and remembers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scalewatch/v1/alerts.pb.h"
#include "server/alerting/http_sender.h"
#include "server/alerting/sink_config.h"

namespace scalewatch::alerting {

// Transitions as outbox rows name them; an escalation is kEscalatedPrefix + the new severity's name, repetitions and digests
// end in the count of pages.
inline constexpr std::string_view kFiring = "firing";
inline constexpr std::string_view kResolved = "resolved";
inline constexpr std::string_view kEscalatedPrefix = "escalated:";
inline constexpr std::string_view kRepeatedPrefix = "repeated:";
inline constexpr std::string_view kDigestPrefix = "digest:";
inline constexpr std::string_view kAcknowledged = "acknowledged";  // for types that take it (SinkType::kAcknowledges)
inline constexpr std::string_view kWatchdog = "watchdog";          // see watchdog.h: never stored
inline constexpr std::string_view kTest = "test";                  // of `alerts test`: never stored

enum class Verdict : std::uint8_t {
  kDelivered,
  kRetry,     // the receiver may take it later
  kRejected,  // the receiver says that the request is wrong: only a person can mend that
};

struct Notice {
  const v1::Alert& alert;  // as it was at the transition
  std::string_view transition;
  std::string_view key;  // idempotency key: the same at every try
};

// Thread-safe.
class Sink {
 public:
  explicit Sink(SinkConfig config) : config_(std::move(config)) {}
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  [[nodiscard]] const SinkConfig& config() const { return config_; }

  // now_ms: Unix milliseconds of this try.
  [[nodiscard]] virtual HttpRequest request(const Notice& notice, std::int64_t now_ms) const = 0;
  // 2xx delivered; 408, 429, 5xx and no answer retry; the rest rejected.
  [[nodiscard]] virtual Verdict classify(const HttpResponse& response) const;
  // Notices with equal order are sent one after the other, oldest first: a late firing must not follow its resolve.
  [[nodiscard]] virtual std::string order(const v1::Alert& alert) const { return alert.id(); }

  // How often open alerts are sent again; 0 = never.
  [[nodiscard]] virtual std::uint32_t reminder_ms() const { return 0; }
  // Sends open alerts again; only called when reminder_ms() > 0.
  [[nodiscard]] virtual HttpRequest reminder(std::span<const v1::Alert> alerts, std::int64_t now_ms) const;

 protected:
  // The configured address. Empty when it is a secret that can't be read now: the request then says so.
  [[nodiscard]] std::string url() const;
  // Says whether the request carries secrets of the configuration.
  void mark_secrets(HttpRequest& request) const;
  // A POST of JSON with the configured headers.
  [[nodiscard]] HttpRequest post(std::string url, std::string json) const;

 private:
  SinkConfig config_;
};

struct SinkType {
  std::string_view name;
  std::uint32_t reminder_ms;  // default; 0 = has no reminders
  // What the type needs and takes beside what all have.
  enum Uses : unsigned {
    kUrl = 1,
    kKey = 2,
    kMail = 4,
    kCommand = 8,
    kBody = 16,
    kHeaders = 32,
    kUrlMayLack = 64,
    kNeedsKey = 128,
    kAcknowledges = 256,  // hears of acknowledgements
    kWatches = 512        // may have the Watchdog: its reader is a program that notices when something stops to come
  };
  unsigned uses;
  bool base_url;                   // url is a base address that a path is appended to
  bool group;                      // default of SinkConfig::group
  std::uint32_t pages_per_minute;  // default of SinkConfig::pages_per_minute where alerts are not grouped
  std::unique_ptr<Sink> (*make)(SinkConfig config);
};

std::span<const SinkType> sink_types();
// Null for an unknown type.
const SinkType* find_sink_type(std::string_view name);

// The config must have passed validate().
std::unique_ptr<Sink> make_sink(SinkConfig config);

}  // namespace scalewatch::alerting
