// Feeds what a log tells into the domain, attempt by attempt, and keeps what came of it: findings with their lines, counts, and
// the scale over attempts. Memory is bounded, whatever the log holds. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "server/domain/diagnosis.h"
#include "server/domain/run_state.h"

namespace scalewatch::logimport {

// The scale and the skips of one attempt, or of several merged ones. Attempts are counted over all runs of the file.
struct ScalePoint {
  std::uint64_t first_attempt = 0;
  std::uint64_t last_attempt = 0;
  std::optional<double> low, high;
  bool skipped = false;
};

// A run of the file, or of one of several files.
struct LogPart {
  std::uint32_t file = 0;           // index of the file, from 0
  std::uint64_t line = 0;           // where it begins
  std::uint64_t first_attempt = 0;  // of it, as ScalePoint counts
  bool numbered = false;            // the log gives steps or places; else its records are counted
};

// What a scaler's one optimizer did, where the log knows it.
void decide(domain::ScalerObservation& scaler, domain::Outcome outcome);

// What a run that was read from a log is called in place of a framework.
inline constexpr std::string_view kFramework = "log";

// Takes the inputs as the domain does: for those who send a log elsewhere (import).
using InputTap = std::function<void(const domain::Input&)>;

class LogRun {
 public:
  explicit LogRun(const domain::Thresholds& thresholds, InputTap tap = {});

  // ---- runs of the file: each a segment. Nothing happens when nothing was told since the last one.
  void begin(std::uint64_t line, std::uint32_t file = 0);
  void end();
  // The newest run's steps are the log's own numbers.
  void numbered() {
    if (!parts_.empty()) parts_.back().numbered = true;
  }
  // The first kMaxParts of them: segments of findings, from 1.
  [[nodiscard]] const std::vector<LogPart>& parts() const { return parts_; }
  [[nodiscard]] std::uint32_t runs() const { return segment_; }

  // Scalers are known by the number that the log gives them; `parameters` are those that were printed.
  void declare(std::uint32_t scaler, std::string_view policy, const std::map<std::string, double>& parameters);
  [[nodiscard]] bool has_scaler() const { return !scalers_.empty(); }

  // ---- attempts
  // So many were applied and have nothing to tell.
  void pass(std::uint64_t attempts);
  // The newest of those passed has something to tell after all. False: none was passed since the newest that was told.
  bool take_back() { return passed_ > 0 && passed_-- > 0; }
  // So many nobody knows anything of.
  void miss(std::uint64_t attempts);
  // Those passed since the newest that was told are not known to have been applied. Returns how many.
  std::uint64_t doubt() {
    const std::uint64_t passed = std::exchange(passed_, 0);
    attempt_ += passed;
    return passed;
  }
  // The attempt that is told next, as new: to be filled, and then told. Good until the next call.
  domain::AttemptDigest& next() { return told_[end_].emplace<domain::AttemptDigest>(); }
  // Tells next(). Fills in its number, time and the attempts passed before. Observations are of declared scalers.
  void tell(std::uint64_t line, std::optional<std::int64_t> time_ms);
  // The domain has seen all that was told. Before anybody looks at what came of it.
  void catch_up();
  // Skips that are only counted: beyond what any window holds.
  void count_skips(std::uint64_t attempts);

  // Of this run of the file, passed and missed ones included.
  [[nodiscard]] std::uint64_t attempt() const { return attempt_ + passed_; }
  [[nodiscard]] bool any_applied() const { return segment_applied_ + passed_ > 0; }

  // ---- what came of it, as far as the domain has caught up
  [[nodiscard]] domain::Diagnosis diagnosis() const;
  [[nodiscard]] const std::vector<ScalePoint>& scale() const { return points_; }
  // Findings that opened or got worse since the last call; for those who follow a log.
  std::vector<domain::Finding> take_news() { return std::exchange(news_, {}); }

 private:
  static constexpr std::size_t kMaxLines = 4096;
  static constexpr std::size_t kMaxPoints = 2048;
  static constexpr std::size_t kMaxFindings = 512;
  static constexpr std::size_t kMaxNews = 64;
  static constexpr std::size_t kMaxParts = 4096;
  // Attempts that are told before the domain looks at them, one after the other: the code of both does not fit into a
  // processor's first cache.
  static constexpr std::size_t kBurst = 64;
  struct Scaler {
    std::uint32_t number = 0;  // as the log has it
    domain::ScalerInfo info;
  };

  void fold(const domain::Input& input);
  void keep(domain::Finding finding, bool news);
  [[nodiscard]] std::uint64_t line_of(domain::Attempt attempt) const;
  void add_point(const domain::AttemptDigest& digest, bool skipped);
  void flush_passed();

  domain::RunState state_;
  InputTap tap_;
  std::vector<domain::Input> told_{kBurst};  // digests in [first_, end_) wait for the domain
  std::size_t first_ = 0, end_ = 0;
  std::uint32_t segment_ = 0;
  bool open_ = false;  // a segment is
  domain::TimeMs now_ = 0;
  std::vector<Scaler> scalers_;
  bool declared_ = true;       // the domain knows of all of them
  std::uint64_t attempt_ = 0;  // newest that was told
  std::uint64_t passed_ = 0;   // since
  std::uint64_t segment_applied_ = 0;
  std::uint64_t before_ = 0;  // attempts of the runs before
  std::uint64_t newest_line_ = 0;
  std::vector<std::pair<domain::Attempt, std::uint64_t>> lines_;  // of this run, rising
  domain::RunFacts facts_;
  std::vector<ScalePoint> points_;
  std::vector<LogPart> parts_;
  std::uint64_t per_point_ = 1;
  std::map<std::tuple<std::uint32_t, std::string, std::string>, domain::Finding> findings_;  // by run, rule and subject
  std::vector<domain::Finding> news_;
};

}  // namespace scalewatch::logimport
