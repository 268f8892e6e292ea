// A secret of a sink: in a file, or in the environment, never in the configuration. Its value is never printed.
#pragma once

#include <optional>
#include <string>

namespace scalewatch::alerting {

struct Secret {
  std::string file;    // path; read anew for every request, so that a rotated secret is taken up
  std::string env;     // name of an environment variable
  std::string prefix;  // put before it, such as "Bearer "

  [[nodiscard]] bool set() const { return !file.empty() || !env.empty(); }
  // Without line ends at its end; absent when it can't be read, is empty, or has more than 8 KiB.
  [[nodiscard]] std::optional<std::string> read() const;
  // What is wrong with it; names the file or the variable. Empty when it can be read now.
  [[nodiscard]] std::string fault() const;
};

}  // namespace scalewatch::alerting
