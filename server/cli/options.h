// What the command line can say, one struct a command. Defaults here are those that --help shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/cli/credentials.h"

namespace scalewatch::cli {

// How a moment is told.
enum class TimeStyle : std::uint8_t {
  kRelative,  // "3 min ago"
  kAbsolute,  // this machine's time zone
  kUtc,
};

struct GlobalOptions {
  std::string server = "127.0.0.1:7462";
  Credentials credentials;
  bool json = false;
  bool color = true;
  bool color_said = false;  // by an option, which NO_COLOR does not outdo
  bool ascii = false;
  bool pager = true;
  TimeStyle time = TimeStyle::kRelative;
  std::optional<int> width;  // columns; 0 = no limit
};

// Attempts of one segment, both ends inclusive; 0 = open.
struct RangeOptions {
  std::uint32_t segment = 0;  // 0 = newest
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct RunsOptions {
  std::string name;          // part of the name
  std::string status;        // empty: all
  std::string min_severity;  // empty: all
  std::uint32_t limit = 1000;
};

struct ShowOptions {
  std::string run;
  std::uint32_t segment = 0;  // 0 = newest
};

struct ScalerOptions {
  std::string run;
  std::uint32_t scaler = 0;
  std::optional<std::uint32_t> rank;
  RangeOptions range;
  std::uint32_t limit = 20;  // newest changes in the table
};

struct TensorsOptions {
  std::string run;
  std::uint32_t segment = 0;  // 0 = newest
  std::string name;           // part of the name
  std::string role;           // empty: all
  std::uint32_t limit = 10'000;
};

struct HistoryOptions {
  std::string run;
  std::string tensor;
  std::string role;  // empty: the only one of that name
  std::optional<std::uint32_t> rank;
  RangeOptions range;
  std::uint32_t points = 40;
  std::string stat = "absmax";
};

struct TopOptions {
  std::string run;
  std::string by = "headroom";
  std::string role;  // empty: all
  RangeOptions range;
  std::uint32_t limit = 20;
};

struct AlertsOptions {
  std::string run;                  // empty: all
  std::string min_severity;         // empty: all
  std::vector<std::string> states;  // empty: all but resolved
  std::string rule;                 // empty: all
  bool all = false;                 // resolved ones too
  std::uint32_t limit = 1000;
};

struct AckOptions {
  std::string id;
  std::string who;
  std::string comment;
};

struct TailOptions {
  std::string run;
};

struct AttemptOptions {
  std::string run;
  std::uint64_t attempt = 0;  // 0 = newest
  std::uint32_t segment = 0;  // 0 = newest
  std::optional<std::uint32_t> rank;
  bool bad = false;  // only tensors that are non-finite
};

struct HeatmapOptions {
  std::string run;
  std::string name;  // part of the name
  std::string role;  // empty: all
  std::optional<std::uint32_t> rank;
  RangeOptions range;
  std::string stat = "absmax";
  std::uint32_t limit = 40;
};

struct ExportOptions {
  std::string run;
  std::string what = "tensors";
  std::string format = "csv";
  std::string name;  // part of the name
  std::string role;  // empty: all
  std::optional<std::uint32_t> rank;
  RangeOptions range;
};

struct ReportOptions {
  std::string run;
};

struct ChecklistOptions {
  std::string what;  // a file that exists, or a run
};

struct WatchOptions {
  std::string name;          // part of the name
  std::string min_severity;  // empty: all
  double interval_s = 2;
  std::uint32_t count = 0;  // frames; 0 = until interrupted
};

struct CompareOptions {
  std::string run_a;
  std::string run_b;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  double octaves = 1;
  std::uint32_t limit = 20;
};

struct WhatIfOptions {
  std::string run;
  std::uint32_t segment = 0;  // 0 = newest
  std::uint32_t scaler = 0;
  std::string policy;                    // empty: the one that ran
  std::vector<std::string> settings;     // key=value
  bool bf16 = false;                     // bf16 in place of a policy
  bool best = false;                     // search the settings
  std::optional<double> most_underflow;  // percent of gradient elements; absent: 1, or as it went
  std::uint32_t limit = 10;              // tensors in the table
};

struct ReplayOptions {
  std::string trace;                  // path; "-" = standard input
  std::string policy;                 // empty: as the trace says
  std::vector<std::string> settings;  // key=value
  std::vector<std::string> more;      // key=value, without --set
};

struct DoctorOptions {
  std::string run;                 // of a server; empty: files
  std::uint32_t segment = 0;       // of the run; 0 = newest
  std::vector<std::string> files;  // "-" = standard input
  std::string format;              // empty: found by itself
  bool follow = false;
};

struct ImportOptions {
  std::string file;    // "-" = standard input
  std::string run;     // name that it gets
  std::string format;  // empty: found by itself
  bool follow = false;
  bool page = false;  // sinks are told of what is found; with `follow` they are anyway
};

}  // namespace scalewatch::cli
