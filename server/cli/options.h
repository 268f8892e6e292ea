// What the command line can say, one struct a command. Defaults here are those that --help shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scalewatch::cli {

struct GlobalOptions {
  std::string server = "127.0.0.1:7462";
  bool json = false;
  bool no_color = false;
  bool ascii = false;
  std::optional<int> width;  // columns; 0 = no limit
};

// Attempts of the newest segment, both ends inclusive; 0 = open.
struct RangeOptions {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct RunsOptions {
  std::string name;          // part of the name
  std::string min_severity;  // empty: all
  std::uint32_t limit = 1000;
};

struct ShowOptions {
  std::string run;
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
  std::string name;  // part of the name
  std::string role;  // empty: all
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
  std::string run;           // empty: all
  std::string min_severity;  // empty: all
  bool all = false;          // resolved ones too
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

struct ReplayOptions {
  std::string trace;                  // path; "-" = standard input
  std::string policy;                 // empty: as the trace says
  std::vector<std::string> settings;  // key=value
  std::vector<std::string> more;      // key=value, without --set
};

struct DoctorOptions {
  std::string run;
};

}  // namespace scalewatch::cli
