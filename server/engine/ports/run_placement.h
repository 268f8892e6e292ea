// Whose a run is, where several servers share the runs between them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace scalewatch::engine {

class RunPlacement {
 public:
  struct Answer {
    enum Kind : std::uint8_t {
      kHere,       // this server's: all that the servers share of the run is in its store by now
      kElsewhere,  // another one's: clients go to `server`
      kNotNow,     // it can't be told; clients try again later
    };
    Kind kind = kHere;
    std::string server{};  // host:port, with kElsewhere
    std::string why{};     // for people
  };
  using Done = std::function<void(const Answer&)>;

  virtual ~RunPlacement() = default;
  // Called for every Hello before the run is looked up; thread-safe, never blocks. `done` is called once, from any thread,
  // maybe before this returns.
  virtual void enter(const std::string& run, Done done) = 0;
};

}  // namespace scalewatch::engine
