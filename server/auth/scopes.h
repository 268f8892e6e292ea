// What a token may do. Pure, plain values.
//
//   ingest[:PATTERN]   send reports of runs whose name matches
//   read[:PATTERN]     ask about them
//   operate[:PATTERN]  acknowledge their alerts; with the pattern * also silences, and reading the configuration again
//   admin              all of these for every run, and test pages and dead letters
// A pattern is a shell's (* ? [...]) and speaks of the whole name; without one all runs are meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace scalewatch::auth {

struct Scopes {
  std::vector<std::string> ingest;   // patterns
  std::vector<std::string> read;     // patterns
  std::vector<std::string> operate;  // patterns
  bool admin = false;

  static Scopes all();
  // Adds one as it is written above; false, and nothing is added, when it is none.
  bool add(std::string_view text);
  [[nodiscard]] std::vector<std::string> texts() const;
  [[nodiscard]] bool empty() const { return ingest.empty() && read.empty() && operate.empty() && !admin; }

  [[nodiscard]] bool may_ingest(const std::string& run) const;
  [[nodiscard]] bool may_read(const std::string& run) const;
  [[nodiscard]] bool may_read_all() const;
  [[nodiscard]] bool may_operate(const std::string& run) const;
  [[nodiscard]] bool may_operate_all() const;

  bool operator==(const Scopes&) const = default;
};

}  // namespace scalewatch::auth
