// A real scalewatchd in a temporary folder, on free ports. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace scalewatch::bench {

class ServerProcess {
 public:
  // config: text of its YAML file. Throws std::runtime_error when it does not get ready in 30 s.
  explicit ServerProcess(const std::string& config = "");
  // The same in a folder that is there and stays; its history is in `data` below it.
  ServerProcess(const std::string& config, const std::filesystem::path& folder);
  ~ServerProcess();  // kills it if it still runs, and removes a temporary folder
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }  // of gRPC, host:port
  // SIGTERM, then waits; throws std::runtime_error unless it exits with 0.
  void stop();
  void signal(int number) const;
  void kill_now();  // SIGKILL, and waits
  void restart();   // on the same ports and data, after kill_now() or stop()
  // Bytes of the history on disk. After stop() the write-ahead log is part of the file.
  [[nodiscard]] std::uint64_t history_bytes() const;
  // CPU time of the server so far, seconds; 0 once it ended.
  [[nodiscard]] double cpu_seconds() const;
  // The same of its threads of this name.
  [[nodiscard]] double cpu_seconds(const std::string& thread) const;
  // The same of all threads, those of one name together. Threads that ended are not in it.
  [[nodiscard]] std::map<std::string, double> cpu_by_thread() const;
  // The same of each thread of this name, by its number, to the nanosecond.
  [[nodiscard]] std::map<int, double> cpu_by_task(const std::string& thread) const;
  [[nodiscard]] std::filesystem::path data() const { return folder_ / "data"; }
  // Largest resident memory of the server so far, bytes; 0 once it ended.
  [[nodiscard]] std::uint64_t peak_memory() const;

 private:
  void start();
  void wait_until_ready();

  std::filesystem::path folder_;
  bool temporary_ = true;
  std::string address_ = "127.0.0.1:0";
  std::string http_ = "127.0.0.1:0";
  pid_t pid_ = 0;
};

}  // namespace scalewatch::bench
