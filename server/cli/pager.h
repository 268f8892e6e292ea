// Long output of a terminal goes through a pager. Not thread-safe; one at a time in a process.
#pragma once

#include <cstdio>
#include <ostream>
#include <streambuf>
#include <string>

namespace scalewatch::cli {

// The command that pages: $PAGER, else less. Empty: none ($PAGER is empty or "cat").
std::string pager_command();

// Holds output back until it is longer than the terminal; then everything goes through the pager, else to `out`. A pager that
// is quit early ends the output: writing fails from then on, and gone() says so.
class PagedOutput : public std::streambuf {
 public:
  // `out` is standard output, a terminal of `rows` rows.
  PagedOutput(std::ostream& out, std::string command, int rows);
  ~PagedOutput() override;
  PagedOutput(const PagedOutput&) = delete;
  PagedOutput& operator=(const PagedOutput&) = delete;

  // Writes what is held back, and waits until the pager is quit. False when there is no such pager.
  bool finish();
  [[nodiscard]] bool gone() const { return gone_; }

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;

 private:
  bool write(std::string_view text);
  void open();

  std::ostream& out_;
  const std::string command_;
  const int rows_;
  std::string held_;
  int lines_ = 0;
  std::FILE* pager_ = nullptr;
  bool failed_to_open_ = false;
  bool gone_ = false;
};

}  // namespace scalewatch::cli
