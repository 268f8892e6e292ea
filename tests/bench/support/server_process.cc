#include "tests/bench/support/server_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace scalewatch::bench {
namespace {

using namespace std::chrono_literals;

// Empty for what is not there, or not any more: threads end while they are looked at.
std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::filesystem::path temporary_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "scalewatch-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
  return name;
}

}  // namespace

ServerProcess::ServerProcess(const std::string& config) : folder_(temporary_folder()) {
  std::ofstream(folder_ / "config.yaml") << (config.empty() ? "log: {level: info}\n" : config);
  try {
    start();
  } catch (...) {
    std::filesystem::remove_all(folder_);
    throw;
  }
}

ServerProcess::ServerProcess(const std::string& config, const std::filesystem::path& folder)
    : folder_(folder), temporary_(false) {
  std::ofstream(folder_ / "config.yaml") << config;
  start();
}

void ServerProcess::start() {
  const std::string program = (std::filesystem::canonical("/proc/self/exe").parent_path() / "scalewatchd").string();
  std::filesystem::remove(folder_ / "ports");
  std::vector<std::string> words{
      program,  "--config", folder_ / "config.yaml", "--data-dir",     folder_ / "data", "--listen", address_,
      "--http", http_,      "--port-file",           folder_ / "ports"};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string log = folder_ / "log";
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execv(program.c_str(), arguments.data());
    _exit(127);
  }
  try {
    wait_until_ready();
  } catch (...) {
    kill_now();
    throw;
  }
}

void ServerProcess::wait_until_ready() {
  for (int tries = 0; tries < 300; ++tries) {
    std::istringstream ports(content(folder_ / "ports"));
    for (std::string line; std::getline(ports, line);) {
      if (line.starts_with("grpc=")) address_ = "127.0.0.1:" + line.substr(5);
      if (line.starts_with("http=")) http_ = "127.0.0.1:" + line.substr(5);
    }
    if (std::filesystem::exists(folder_ / "ports") && !address_.ends_with(":0") && !http_.ends_with(":0")) return;
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) break;
    std::this_thread::sleep_for(100ms);
  }
  throw std::runtime_error("scalewatchd did not get ready: " + content(folder_ / "log"));
}

ServerProcess::~ServerProcess() {
  kill_now();
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(folder_, ignored);
}

void ServerProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

void ServerProcess::kill_now() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void ServerProcess::restart() {
  start();
}

void ServerProcess::stop() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("scalewatchd did not stop cleanly: " + content(folder_ / "log"));
  }
}

std::uint64_t ServerProcess::history_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "data")) {
    if (entry.path().filename().string().starts_with("history.db")) bytes += entry.file_size();
  }
  return bytes;
}

namespace {

double cpu_of(const std::filesystem::path& process_or_thread) {
  const std::string stat = content(process_or_thread / "stat");
  if (stat.find(')') == std::string::npos) return 0;
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));  // from field 3; utime and stime are 14 and 15
  std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  if (words.size() < 13) return 0;
  return (std::stod(words[11]) + std::stod(words[12])) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double ServerProcess::cpu_seconds() const {
  return pid_ == 0 ? 0 : cpu_of("/proc/" + std::to_string(pid_));
}

double ServerProcess::cpu_seconds(const std::string& thread) const {
  const auto all = cpu_by_thread();
  const auto found = all.find(thread);
  return found == all.end() ? 0 : found->second;
}

std::map<std::string, double> ServerProcess::cpu_by_thread() const {
  std::map<std::string, double> seconds;
  if (pid_ == 0) return seconds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
    std::string name = content(entry.path() / "comm");
    if (!name.empty()) name.pop_back();
    seconds[name] += cpu_of(entry.path());
  }
  return seconds;
}

std::map<int, double> ServerProcess::cpu_by_task(const std::string& thread) const {
  std::map<int, double> seconds;
  if (pid_ == 0) return seconds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
    std::istringstream times(content(entry.path() / "schedstat"));
    double nanoseconds = 0;
    if (content(entry.path() / "comm") != thread + "\n" || !(times >> nanoseconds)) continue;
    seconds[std::stoi(entry.path().filename())] = nanoseconds * 1e-9;
  }
  return seconds;
}

std::uint64_t ServerProcess::peak_memory() const {
  if (pid_ == 0) return 0;
  std::istringstream status(content("/proc/" + std::to_string(pid_) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

}  // namespace scalewatch::bench
