#include "server/cli/pager.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

namespace scalewatch::cli {

namespace {

// Of a command's first word; a pager that is missing would take the answer with it.
bool installed(std::string program) {
  program = program.substr(0, program.find(' '));
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + '/' + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

std::string pager_command() {
  const char* set = std::getenv("PAGER");
  if (set == nullptr) return installed("less") ? "less" : "";
  const std::string command = set;
  return command == "cat" || !installed(command) ? std::string() : command;
}

PagedOutput::PagedOutput(std::ostream& out, std::string command, int rows)
    : out_(out), command_(std::move(command)), rows_(rows) {}

PagedOutput::~PagedOutput() {
  finish();
}

void PagedOutput::open() {
  out_.flush();
  // Colours pass, what fits one screen is not held, and the text stays when it is quit.
  setenv("LESS", "FRX", 0);
  pager_ = popen(command_.c_str(), "w");
  if (pager_ == nullptr) {
    failed_to_open_ = true;
    return;
  }
  // Ctrl-C is the pager's while it is there, and a pager that is gone is an error of write().
  std::signal(SIGINT, [](int) {});
  std::signal(SIGPIPE, SIG_IGN);
}

bool PagedOutput::write(std::string_view text) {
  if (gone_) return false;
  if (pager_ == nullptr && !failed_to_open_) {
    held_ += text;
    lines_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    if (lines_ < rows_) return true;
    open();
    return write(std::exchange(held_, {}));
  }
  if (failed_to_open_) {
    out_ << text;
    return static_cast<bool>(out_);
  }
  gone_ = std::fwrite(text.data(), 1, text.size(), pager_) != text.size();
  return !gone_;
}

PagedOutput::int_type PagedOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return write({&one, 1}) ? c : traits_type::eof();
}

std::streamsize PagedOutput::xsputn(const char* text, std::streamsize size) {
  return write({text, static_cast<std::size_t>(size)}) ? size : 0;
}

bool PagedOutput::finish() {
  if (pager_ == nullptr) {
    out_ << std::exchange(held_, {});
    out_.flush();
    return true;
  }
  gone_ = std::fflush(pager_) != 0 || gone_;
  failed_to_open_ = true;  // no second one
  const int status = pclose(std::exchange(pager_, nullptr));
  constexpr int kNotFound = 127;  // by the shell
  return !WIFEXITED(status) || WEXITSTATUS(status) != kNotFound;
}

}  // namespace scalewatch::cli
