// A trace to replay: what found_inf was, step by step, and of which scaler.
//
// The form is CSV: a header line that names the columns, `step` and `found_inf` among them, in any order; further columns are
// ignored. found_inf is a number (a count above 0 is true), True or False. Lines that begin with '#' are comments but for the
// first of them, which may name the policy: `# POLICY parameter=value ...`. Empty lines are skipped; line ends are LF or CRLF.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "server/domain/policy.h"

namespace scalewatch::cli {

struct TraceRow {
  std::int64_t step = 0;
  double found_inf = 0;  // >= 0
};

struct Trace {
  std::string policy;  // of the first '#' line, empty: none before the header
  std::size_t policy_line = 0;
  domain::PolicyParameters parameters;
  std::vector<TraceRow> rows;  // at most kMaxRows
  static constexpr std::size_t kMaxRows = 5'000'000;
  static constexpr std::size_t kMaxLine = 65'536;  // bytes
};

// Reads to the end. `name` is what messages call the input. With `policy_given` the '#' line is a comment too. Throws CallError
// with the line's number.
Trace read_trace(std::istream& in, const std::string& name, bool policy_given);

// `key=value` with a number, True or False as value, into `parameters`; false when it is no such thing.
bool add_setting(domain::PolicyParameters& parameters, const std::string& setting);

// Why the policy can't be had with these parameters, for people; empty when it can.
std::string refusal(const std::string& policy, const domain::PolicyParameters& parameters);

}  // namespace scalewatch::cli
