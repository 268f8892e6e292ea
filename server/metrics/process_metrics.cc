#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "server/metrics/server_metrics.h"

namespace scalewatch::metrics {
namespace {

// Fields of /proc/self/stat after the command's name, which may hold spaces; see proc(5), numbered there from 3.
struct ProcStat {
  double threads = 0;
  double start_ticks = 0;
  double virtual_bytes = 0;
  double resident_pages = 0;
};

bool read_stat(ProcStat& out) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 24; ++number) {
    if (!(rest >> field)) return false;
    const double value = std::strtod(field.c_str(), nullptr);
    if (number == 20) out.threads = value;
    if (number == 22) out.start_ticks = value;
    if (number == 23) out.virtual_bytes = value;
    if (number == 24) out.resident_pages = value;
  }
  return true;
}

// Unix time of the machine's start, seconds; 0 when unknown.
double boot_time() {
  std::ifstream file("/proc/stat");
  std::string key;
  double value = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    if (fields >> key >> value && key == "btime") return value;
  }
  return 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

void add_process_metrics(Page& page) {
  static const double kBoot = boot_time();
  const auto put = [&](Id id, double value) { page.add(id, {}, value); };
  ProcStat stat;
  if (read_stat(stat)) {
    if (kBoot > 0) put(Id::kStartTime, kBoot + stat.start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
    put(Id::kResidentMemory, stat.resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
    put(Id::kVirtualMemory, stat.virtual_bytes);
    put(Id::kThreads, stat.threads);
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) put(Id::kCpuSeconds, seconds(usage.ru_utime) + seconds(usage.ru_stime));
  std::error_code error;
  std::filesystem::directory_iterator fds("/proc/self/fd", error);
  if (!error) put(Id::kOpenFds, static_cast<double>(std::distance(begin(fds), end(fds))));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) put(Id::kMaxFds, static_cast<double>(limit.rlim_cur));
}

}  // namespace scalewatch::metrics
