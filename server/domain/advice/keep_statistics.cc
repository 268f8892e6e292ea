// Measurements are lost on their way: what to give more of.
#include "server/domain/advice/advice.h"
#include "server/domain/text.h"

namespace scalewatch::domain {

std::optional<Advice> advise_keep_statistics(const AdviceContext& context) {
  if (!context.rule("StatsDropped")) return std::nullopt;
  const auto advice = [](const char* text, double confidence) { return Advice{"keep_statistics", text, confidence}; };
  switch (loss_cause_of(context.finding.subject)) {
    case LossCause::kBufferFull:
      return advice(
          "give the client a larger buffer_bytes or a spool on disk, so that it bridges the time that the server is away; if "
          "the server was up all the while, it or the network is too slow: look at scalewatch_ingest_lag_seconds",
          0.8);
    case LossCause::kQueueFull:
      return advice(
          "the client's thread gets too little processor time: leave it a core (cgroup limits, CPU pinning, data-loader "
          "workers), or measure fewer tensors or less often",
          0.8);
    case LossCause::kTooLarge:
      return advice("raise limits.max_message of scalewatchd, or measure fewer tensors an attempt", 0.9);
    case LossCause::kRejected:
      return advice(
          "the client's log says what was wrong with the report; client and server of different versions, or a client that "
          "is not Scalewatch's own, are the usual causes",
          0.6);
    case LossCause::kReconnect:
      return advice(
          "nothing to do for this one: scaler observations and non-finite tensors of the outage arrived; if outages are "
          "frequent, look at the network and at the server's restarts",
          0.6);
    case LossCause::kSpoolLimit:
      return advice("give the spool more room (its size, its age, or free space on its disk), or bring the server back sooner",
                    0.8);
    case LossCause::kDevice:
      return advice(
          "the rank's client says in its log and in its device faults which GPU it could not measure and why: an old driver, "
          "an "
          "error that the trainer's own kernel left behind, or no memory; results that came late mean a stream that stood "
          "still",
          0.7);
    case LossCause::kStore:
      return advice(
          "another server of a fleet took the run over before these were shared (history.clickhouse.required keeps them with "
          "the client until they are), or the store's files were removed, damaged, or put back from a backup: the server's "
          "log says which, and `scalewatch admin verify` what else is wrong with a store",
          0.7);
    case LossCause::kInternal:
    case LossCause::kNone:
      break;
  }
  return advice("the client's log on that host says what failed; please report it", 0.5);
}

}  // namespace scalewatch::domain
