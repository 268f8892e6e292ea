// A file that tells scripts and tests which ports were bound.
#pragma once

#include <cstdint>
#include <string>

namespace scalewatch::app {

// "grpc=PORT\nhttp=PORT\n", all at once: a reader sees the whole file or none. Throws std::runtime_error that names the file.
void write_port_file(const std::string& path, std::uint16_t grpc, std::uint16_t http);
void remove_port_file(const std::string& path);

}  // namespace scalewatch::app
