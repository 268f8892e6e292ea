// Turns the readings of a log into attempts, as the domain wants them, and keeps what the domain makes of them.
//
// What is printed is not always what is true: see rules.md, "From logs". Work per reading is bounded (attempts that went by
// without a word are told as one number; of skips that a record only counts, the first kMaxCounted are told one by one, more
// than any window holds), and so is memory. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/logimport/log_run.h"
#include "server/logimport/reading.h"
#include "server/logimport/story_notes.h"
#include "server/logimport/story_places.h"
#include "server/logimport/story_skips.h"

namespace scalewatch::logimport {

class Story final : public ReadingSink {
 public:
  explicit Story(const domain::Thresholds& thresholds = {}, InputTap tap = {});

  void take(const Reading& reading) override;
  // Nothing more for now: what waits for the next line is told as it stands. For logs that are followed.
  void pause();
  // The log ends.
  void finish();

  [[nodiscard]] LogRun& run() { return run_; }
  [[nodiscard]] const LogRun& run() const { return run_; }

 private:
  static constexpr std::size_t kAhead = 64;        // readings that a run's beginning is judged by
  static constexpr std::size_t kBurst = 128;       // beyond them: told together, so that caches hold the code of one thing
  static constexpr std::size_t kMaxPending = 256;  // skips and scales that wait for the next place
  static constexpr std::uint64_t kMaxCounted = 512;
  static constexpr std::uint64_t kSearch = 40;           // attempts that a search for a scale can take at most
  static constexpr std::uint64_t kFirstInterval = 1000;  // attempts that a log's first record covers at most

  struct Pending {
    Reading reading;
    std::uint64_t missing = 0;  // attempts on lines that are not in the log, right before
    std::uint64_t passed = 0;   // by the clock, right before
  };
  struct Scale {
    std::optional<double> now;     // after all that was told
    std::optional<double> before;  // the newest skip
    std::optional<double> counted_from;
  };
  // What the policy's scaler does unless it is told otherwise.
  struct Usual {
    std::string_view policy;
    double backoff = 0.5;
    double growth = 2;
    double floor = 0;
  };
  // One attempt to be: what the scalers did at it.
  struct Slot {
    std::vector<Pending> events;  // of different scalers
    std::uint64_t missing = 0;
    std::uint64_t passed = 0;
    bool skip = false;
    std::optional<double> fell_to;  // of a skip that is only counted
    std::optional<double> fell_from;
  };

  void tell(const Reading& reading);
  // `more`: readings that were put back before those ahead.
  void begin_run(const Reading& first, std::size_t more = 0);
  void on_skip(const Reading& reading);
  void on_scale(const Reading& reading);
  void on_growth(const Reading& reading);
  void on_fatal(const Reading& reading);
  void on_record(const Reading& reading);
  void on_evaluation(const Reading& reading);
  void on_note(const Reading& reading);
  void on_norm(const Reading& reading);
  void tell_norm(double norm, const Reading& reading);
  void restart(const Reading& reading);
  void flush_record();
  void wait(Pending pending);
  std::uint64_t passed_by_clock(const Reading& skip);

  // ---- story_interval.cc: from one place to the next
  struct Interval {
    std::optional<std::uint64_t> went_by;  // steps since the place before
    std::uint64_t skips = 0;               // printed or only counted
    std::uint64_t others = 0;              // growths and scales, each at an attempt of its own
    std::uint64_t missed = 0;              // before all of it, nobody knows
    std::uint64_t free = 0;                // applied, and nothing told of them
    bool joins = false;                    // the record is of the last skipped attempt
  };
  void settle(std::optional<Places::Place> place, const Reading* record);
  Interval measure(const std::optional<Places::Place>& place, const Reading* record, const std::vector<Slot>& slots);
  [[nodiscard]] bool holds_search(const std::vector<Slot>& slots) const;
  [[nodiscard]] std::uint64_t search_before(const std::vector<Slot>& slots) const;
  std::vector<Slot> take_slots();
  void add_counted(std::vector<Slot>& slots, std::uint64_t count, const Reading& record);
  std::uint64_t counted(const Reading& record, std::uint64_t printed, std::optional<std::uint64_t> went_by);
  void tell_slot(const Slot& slot, std::int64_t step, const Reading* record);
  void tell_record(const Reading& record);
  void tell_notes();

  // ---- story_digest.cc: what one attempt's digest holds
  void observe(const Pending& event, domain::AttemptDigest& digest);
  void fill(domain::AttemptDigest& digest, const Reading& record);
  [[nodiscard]] std::optional<double> scale_of(const Reading& record) const;
  void declare(std::uint32_t scaler, std::optional<double> first_scale);

  LogRun run_;
  Readahead ahead_{kAhead + kBurst + 1};
  std::map<std::uint32_t, SkipLines> skips_;
  Places places_;
  Notes notes_;

  // ---- of the run that is being told
  bool fresh_ = true;  // its first reading is still to come
  std::uint32_t file_ = 0;
  std::string_view policy_;
  std::optional<Usual> usual_;
  bool prints_skips_ = false;
  std::map<std::string, double> parameters_;
  std::map<std::uint32_t, Scale> scales_;
  std::vector<Pending> pending_;
  std::optional<Reading> held_;         // a record that more may be printed of
  std::optional<Reading> told_record_;  // newest
  std::optional<Places::Place> place_;  // newest
  std::int64_t first_done_ = 0;         // of the first place that the beginning holds
  std::uint64_t beyond_ = 0;            // attempts told since that place
  std::uint64_t printed_ = 0;           // skips printed since the newest record that counts them
  std::int64_t moved_ = 0;              // steps or records since the newest skip
  bool counts_updates_ = false;         // the trainer's steps do not count skipped attempts
  bool has_total_loss_ = false;         // some record had one: parts of it are not taken for it
  bool fatal_told_ = false;
  bool counted_applied_ = false;  // the record's counter says so
  bool last_was_skip_ = false;    // of the attempts told
  bool norm_told_ = false;        // a norm without a record was
  bool mean_lost_ = false;        // the newest record's mean loss was not finite
  std::optional<std::uint64_t> skipped_total_;
  std::optional<std::uint32_t> leader_;  // rank whose records are followed
  std::uint64_t newest_line_ = 0;
  std::optional<std::int64_t> newest_time_;
  std::optional<std::int64_t> skip_time_;  // of the newest skip
  std::deque<std::int64_t> gaps_;          // between skips that follow each other, milliseconds
};

}  // namespace scalewatch::logimport
