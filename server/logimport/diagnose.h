// The answer to "what is wrong with this run?" from its log: reads, tells the story, and diagnoses. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/domain/diagnosis.h"
#include "server/domain/thresholds.h"
#include "server/logimport/log_run.h"
#include "server/logimport/reader.h"

namespace scalewatch::logimport {

class LogDoctor {
 public:
  // format: as LogReader has it. Throws std::invalid_argument for an unknown one.
  explicit LogDoctor(std::string_view format = {}, const domain::Thresholds& thresholds = {}, InputTap tap = {});
  ~LogDoctor();
  LogDoctor(const LogDoctor&) = delete;
  LogDoctor& operator=(const LogDoctor&) = delete;

  // Files are read one after another; each begins a run of its own.
  void begin_file();
  void feed(std::string_view bytes);
  void end_file();
  // Nothing more for now: judges by what there is. For logs that are followed.
  void pause();
  void finish();

  // What feeds files into it instead (source.h).
  LogReader& reader();

  [[nodiscard]] ReadSummary summary() const;
  [[nodiscard]] domain::Diagnosis diagnosis() const;
  // Runs that the log holds: segments of its findings, from 1.
  [[nodiscard]] std::uint32_t runs() const;
  [[nodiscard]] const std::vector<LogPart>& parts() const;
  [[nodiscard]] const std::vector<ScalePoint>& scale() const;
  // Findings that opened or got worse since the last call.
  std::vector<domain::Finding> take_news();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalewatch::logimport
