#include "server/app/port_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace scalewatch::app {

void write_port_file(const std::string& path, std::uint16_t grpc, std::uint16_t http) {
  const std::string temporary = path + "." + std::to_string(getpid());
  errno = 0;
  std::ofstream file(temporary);
  file << "grpc=" << grpc << "\nhttp=" << http << "\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write the port file " + path + ": " + std::generic_category().message(errno));
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  throw std::runtime_error("cannot write the port file " + path + ": " + error.message());
}

void remove_port_file(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

}  // namespace scalewatch::app
