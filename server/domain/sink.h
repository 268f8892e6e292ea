// Open findings of a run and their life: rules raise and resolve, the sink keeps ids, episodes, severity and advice, and
// collects what changed. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/fields.h"
#include "server/domain/finding.h"
#include "server/domain/model.h"
#include "server/domain/wording.h"

namespace scalewatch::domain {

// What a rule says of a fault that is there now.
struct Draft {
  std::string_view rule;
  std::string subject;
  Severity severity = Severity::kWarning;
  Attempt first_attempt = 0;  // the first that it covers
  std::int64_t first_step = 0;
  Attempt attempt = 0;  // the newest that it covers
  std::int64_t step = 0;
  std::vector<Rank> ranks;
  std::string summary;
  std::vector<Evidence> evidence;
  Wording words;  // in place of summary and evidence, for a fault that is raised often
  std::optional<Blame> blame;
  // The fault is that steps are skipped: what the skips blame most often is its blame, also as more becomes known.
  bool blames_skips = false;
};

class Sink {
 public:
  static constexpr std::size_t kMaxOpen = 1024;

  Sink(const RunModel& run, const Thresholds& thresholds) : run_(run), thresholds_(thresholds) {}

  // Before each input: when it happened.
  void begin(TimeMs now) { now_ = now; }
  // Opens, updates or escalates the finding of (rule, subject). Severity never falls within an episode.
  void raise(Draft draft);
  // Nothing happens when it is not open.
  void resolve(std::string_view rule, const std::string& subject) {
    if (may_be_open(rule)) resolve(rule, subject, {});
  }
  // `reason`: see FindingEvent.
  void resolve(std::string_view rule, const std::string& subject, const std::string& reason);
  void resolve_all(const std::string& reason = {});
  // Before thresholds change: says what is not said yet, for its words refer to them.
  void say_all();
  // What rules found before they were turned off.
  void resolve_off();
  // Null: not open. Its summary and evidence may be older than the newest draft.
  [[nodiscard]] const Finding* find(std::string_view rule, const std::string& subject) const {
    return may_be_open(rule) ? find_open(rule, subject) : nullptr;
  }
  void acknowledge(const std::string& id, const std::string& who, const std::string& comment);
  // A skipped attempt was blamed: gives its blame to the findings that skips cause.
  void refresh_blame();
  // Detail of an old attempt came in: its blame, for the findings that blame what happened there.
  void refine_blame(Attempt attempt, const Blame& blame);
  void new_segment() { episodes_.clear(); }

  std::vector<FindingEvent> take_events() { return std::exchange(events_, {}); }
  [[nodiscard]] std::vector<Finding> open() const;  // worst first, then oldest first

  template <class A>
  void persist(A& a) {
    a(open_, episodes_, now_);
    if constexpr (A::kLoading) note_open();
  }

 private:
  using Key = std::pair<std::string, std::string>;  // rule and subject
  using View = std::pair<std::string_view, std::string_view>;
  // Rules ask at every attempt: no string is made for that.
  struct ByKey {
    using is_transparent = void;
    static View view(const Key& key) { return {key.first, key.second}; }
    static View view(const View& key) { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return view(a) < view(b);
    }
  };
  struct Entry {
    Finding finding;
    bool blames_skips = false;
    Attempt told = 0;            // attempt of its newest event
    bool advice_is_old = false;  // what the finding says has changed since; made anew when somebody looks
    Wording words;               // of the newest draft, not said yet
    void say() {
      if (words) std::exchange(words, Wording()).say(finding);
    }
    template <class A>
    void persist(A& a) {
      say();
      a(finding, blames_skips, told, advice_is_old);
    }
  };
  struct Episode {
    Attempt first_attempt = 0;
    std::uint32_t repeats = 0;
    template <class A>
    void persist(A& a) {
      a(first_attempt, repeats);
    }
  };
  // Rules ask at every attempt about findings that mostly are not open. A bit for a few rules each: 0 where none of theirs is.
  static std::uint64_t bit_of(std::string_view rule) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(rule[at]); };
    const std::size_t mixed =
        rule.empty() ? 0 : rule.size() * 5 + byte(0) * 3U + byte(rule.size() / 2) * 7U + byte(rule.size() - 1);
    return std::uint64_t{1} << (mixed % 64);
  }
  [[nodiscard]] bool may_be_open(std::string_view rule) const { return (rules_open_ & bit_of(rule)) != 0; }
  // After open_ has changed.
  void note_open() {
    rules_open_ = 0;
    for (const auto& [key, entry] : open_) rules_open_ |= bit_of(key.first);
  }
  [[nodiscard]] const Finding* find_open(std::string_view rule, const std::string& subject) const;
  [[nodiscard]] bool is_off(std::string_view rule) const;
  void tell(Entry& entry, FindingEvent::Change change, const std::string& reason = {});
  std::string new_id(const Draft& draft);

  const RunModel& run_;
  const Thresholds& thresholds_;
  TimeMs now_ = 0;
  std::map<Key, Entry, ByKey> open_;
  std::uint64_t rules_open_ = 0;
  std::map<Key, Episode> episodes_;  // newest of each subject, so that two of one attempt differ in id
  std::vector<FindingEvent> events_;
};

}  // namespace scalewatch::domain
