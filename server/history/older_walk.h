// Going over old attempts one after the other, as an export does in a request for each: what the next requests will ask is read
// ahead, and answered from here.
//
// A first request reads its own attempt alone; where the next one goes on from there, a few are read at once, then more and
// more while they come fast. What was read ahead is told for some seconds, so that what is shared meanwhile is missed no
// longer.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/history/older_history.h"

namespace scalewatch::history {

struct WalkLimits {
  std::size_t attempts = 256;             // read at once
  std::size_t bytes = 16 << 20;           // of reports, of payloads, and of records, that are read at once
  std::size_t kept = 16;                  // walks between their requests
  std::size_t kept_bytes = 64 << 20;      // of these
  std::chrono::milliseconds fresh{5000};  // how long what was read is told
  // Where reading took longer, no more are read at once unless more are cheaper each.
  std::chrono::milliseconds patience{1000};
};

// Answers of one request: those that OlderHistory gives, most of them read before. Not thread-safe.
class OlderWalk final : public OlderHistory {
 public:
  struct Of {
    std::string run_uid;
    std::uint32_t segment = 0;
    std::optional<std::uint32_t> rank;
    bool operator==(const Of&) const = default;
  };
  OlderWalk(OlderHistory& history, Of of, const WalkLimits& limits) : history_(history), of_(std::move(of)), limits_(limits) {}

  // Whether a request for an attempt goes on here. `again`: for another page of it.
  [[nodiscard]] bool leads_to(const Of& of, std::uint64_t attempt, bool again) const;
  // Whether it was asked for an attempt at all.
  [[nodiscard]] bool has_begun() const { return window_.has_value(); }
  // After the request. `again`: there are more pages of its attempt.
  void answered(bool again);
  // Of what was read ahead, roughly.
  [[nodiscard]] std::size_t bytes() const;

  // Of a range that does not end with its first attempt: the walk comes to that one.
  std::vector<OlderPlace> places(const OlderRange& range, std::size_t limit) override;
  std::vector<OlderReport> reports(const OlderRange& range, std::size_t limit) override;
  std::map<OlderKey, std::string> payloads(const std::string& run_uid, const std::vector<OlderReport>& reports) override;
  std::vector<OlderRecord> records(const OlderRange& range, const Tensors& tensors, std::size_t limit) override;
  std::vector<OlderScaler> scalers(const OlderRange& range, std::optional<std::uint32_t> scaler, std::size_t limit) override;
  std::vector<engine::InputRow> inputs(const std::string& run_uid, std::uint64_t after_pos, std::size_t limit) override;
  // These are asked as they are.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> bounds(const OlderRange& range) override {
    return history_.bounds(range);
  }
  OlderSums sums(const OlderRange& range, const Tensors::value_type& tensor, const AttemptGrid& grid) override {
    return history_.sums(range, tensor, grid);
  }
  OlderCover cover(const OlderRange& range) override { return history_.cover(range); }
  std::vector<OlderScore> scores(const OlderRange& range, By::By by, const Tensors& tensors, std::uint64_t first,
                                 std::uint64_t width) override {
    return history_.scores(range, by, tensors, first, width);
  }
  [[nodiscard]] std::uint64_t key_of(const std::string& name, int role) const override { return history_.key_of(name, role); }

 private:
  using Clock = std::chrono::steady_clock;
  // Rows of all attempts of a part of the window.
  template <class Row>
  struct Held {
    std::optional<Interval> attempts;
    std::vector<Row> rows;
    std::size_t bytes = 0;
  };
  struct Inputs {
    std::vector<engine::InputRow> rows;
    std::uint64_t after = UINT64_MAX;  // all from here to the last one
    bool end = false;                  // there are no more behind it
    std::size_t bytes = 0;
  };
  // What was read of some attempts.
  struct Window {
    Interval attempts;
    Clock::time_point read_at;
    std::vector<OlderPlace> places;
    Held<OlderReport> reports;
    std::map<OlderKey, std::optional<std::string>> payloads;  // absent: it is gone
    std::size_t payload_bytes = 0;
    std::map<Tensors, Held<OlderRecord>> records;
    Held<OlderScaler> scalers;
    Inputs inputs;
  };
  // Of the window that was opened last.
  struct Measure {
    std::size_t attempts = 0;  // that are there
    std::size_t places = 0;
    std::size_t report_bytes = 0;
    Clock::duration spent{};
  };

  // Opens a window that begins with the first attempt of `rest`. `limit`: places that it may have alone.
  void open(const OlderRange& rest, std::size_t limit);
  [[nodiscard]] std::size_t width_from(std::uint64_t attempt) const;
  [[nodiscard]] bool is_mine(const OlderRange& range) const;
  // What is asked of a part of the window, out of `held`: no more than `most` rows are read at once.
  template <class Row, class Ask>
  std::vector<Row> ask_ahead(Held<Row>& held, const OlderRange& range, std::size_t limit, std::size_t most, const Ask& ask);
  void read_payloads(const std::string& run_uid, const std::vector<OlderReport>& reports);
  // Asks, and takes the time.
  template <class Ask>
  auto timed(const Ask& ask);

  OlderHistory& history_;
  const Of of_;
  const WalkLimits limits_;
  std::optional<Window> window_;
  Measure measure_;
  Measure before_;              // of the one before it
  std::uint64_t position_ = 0;  // attempt of the newest request
  bool again_ = false;          // more pages of it may be asked for
};

// Walks between their requests. Thread-safe.
class OlderWalks {
 public:
  explicit OlderWalks(OlderHistory* history, const WalkLimits& limits = {}) : history_(history), limits_(limits) {}

  // The walk that leads to this attempt, else a new one, for one request; null: there is nothing older. `again`: see
  // leads_to().
  std::unique_ptr<OlderWalk> take(const OlderWalk::Of& of, std::uint64_t attempt, bool again);
  // After a request that was answered; not after one that failed.
  void put_back(std::unique_ptr<OlderWalk> walk, bool again);

 private:
  OlderHistory* const history_;
  const WalkLimits limits_;
  std::mutex mutex_;
  std::list<std::unique_ptr<OlderWalk>> walks_;  // newest first
};

}  // namespace scalewatch::history
