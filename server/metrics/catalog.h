// Every metric of /metrics: what it is called, what it means and what it is labelled with. The page can show no other, and
// deploy/METRICS.md is printed from here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace scalewatch::metrics {

enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };

// In the order of the page and of METRICS.md.
enum class Id : std::uint8_t {
  // runs
  kRunInfo,
  kRunLabels,
  kRunStatus,
  kRunSegment,
  kLastReport,
  kLastStep,
  kAttempts,
  kSkips,
  kNonFiniteApplied,
  kLoss,
  kGradientNorm,
  kRanks,
  kRanksConnected,
  kRanksFinished,
  kFindings,
  kRuleFindings,
  // scalers
  kScale,
  kScaleFloor,
  kGrowthTracker,
  kHysteresis,
  kConsecutiveSkips,
  kSkipRatio,
  kCalibrating,
  kScalerAttempts,
  kGrowths,
  // numerics
  kHeadroom,
  kUnderflow,
  kWorstUnderflow,
  kNonFiniteElements,
  kNonFiniteAttempts,
  kTensorHeadroom,
  // clients
  kReportsLost,
  kLostByCause,
  kThinnedByCause,
  kTrainerSeconds,
  kMeasureSeconds,
  kClientSeconds,
  kGpuSeconds,
  kDriverCalls,
  kBuffered,
  kSpooled,
  // the page
  kRuns,
  kRunsLeftOut,
  kScalersLeftOut,
  kScrapes,
  // ingest
  kIngestReports,
  kIngestRecords,
  kIngestRepeated,
  kIngestRejected,
  kIngestLost,
  kIngestThinned,
  kIngestLate,
  kStreamsFenced,
  kStreamsOpen,
  kQueuedBytes,
  kQueueLimit,
  kLag,
  // history
  kCommits,
  kCommitErrors,
  kCommitDuration,
  kCommittedBytes,
  kDegraded,
  kHistorySize,
  kDiskFree,
  kBallast,
  kBallastWanted,
  kRunHistory,
  kRunHistoryLimit,
  kPageCacheReads,
  kCommitsLost,
  kSharedReachable,
  kSharedThinning,
  kSharedLag,
  kSharedLagBytes,
  kSharedBatches,
  kSharedRecords,
  kSharedErrors,
  // fleet
  kFleetServers,
  kFleetMoved,
  kFleetTakenOver,
  kFleetYielded,
  // alerting
  kDeliveries,
  kDeliveriesPending,
  kDeliveryOldest,
  kAlertRequests,
  kAlertRequestSeconds,
  kReminders,
  kWatchdogs,
  kDeadLetters,
  kUnreadableAlerts,
  // calls
  kRefusals,
  kSlowed,
  kRpcs,
  kRpcDuration,
  kHttpRequests,
  kHttpDuration,
  // configuration
  kReloads,
  kReloadSuccessful,
  kReloadSuccess,
  // the process
  kBuildInfo,
  kStartTime,
  kResidentMemory,
  kVirtualMemory,
  kThreads,
  kCpuSeconds,
  kOpenFds,
  kMaxFds,
  kCount,
};

struct Metric {
  Id id = Id::kCount;
  const char* name = "";
  Type type = Type::kGauge;
  const char* unit = "";    // "" = a plain number
  const char* labels = "";  // names with commas between; "label_*" stands for a run's own labels
  const char* help = "";    // one sentence or two
};

[[nodiscard]] const Metric& metric(Id id);
[[nodiscard]] std::string_view type_name(Type type);  // as Prometheus spells it

// deploy/METRICS.md.
[[nodiscard]] std::string reference();

}  // namespace scalewatch::metrics
