// What a benchmark prints: a line for each figure, or one JSON object of all.
#pragma once

#include <cstdio>
#include <string>

namespace scalewatch::bench {

class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (json_) std::printf(first_ ? "{}\n" : "}\n");
  }
  void put(const std::string& name, double value, const char* unit, int digits = 1) {
    if (json_) {
      std::printf("%s\"%s\": %.*f", before(), name.c_str(), digits, value);
    } else {
      std::printf("%-52s %.*f %s\n", name.c_str(), digits, value, unit);
    }
    std::fflush(stdout);
  }
  void say(const std::string& name, const std::string& text) {
    if (json_) {
      std::printf("%s\"%s\": \"%s\"", before(), name.c_str(), text.c_str());
    } else {
      std::printf("%-52s %s\n", name.c_str(), text.c_str());
    }
    std::fflush(stdout);
  }

 private:
  const char* before() {
    const char* const text = first_ ? "{" : ", ";
    first_ = false;
    return text;
  }
  const bool json_;
  bool first_ = true;
};

}  // namespace scalewatch::bench
