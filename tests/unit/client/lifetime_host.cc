// A host that loads the client as a plug-in: lifetime_host WAY LIBRARY SERVER. It is not linked to the client, so its own
// statics are older than the library's and are destroyed after them.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "scalewatch/scalewatch.h"

namespace {

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::_Exit(99);
    }
    find("scalewatch_open", open);
    find("scalewatch_close", close);
    find("scalewatch_begin_attempt", begin_attempt);
    find("scalewatch_end_attempt", end_attempt);
    find("scalewatch_wait_durable", wait_durable);
  }

  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
  }

  void* handle;
  decltype(scalewatch_open)* open = nullptr;
  decltype(scalewatch_close)* close = nullptr;
  decltype(scalewatch_begin_attempt)* begin_attempt = nullptr;
  decltype(scalewatch_end_attempt)* end_attempt = nullptr;
  decltype(scalewatch_wait_durable)* wait_durable = nullptr;
};

std::string server;  // NOLINT(cert-err58-cpp): a test program

scalewatch_monitor* opened(const Library& library) {
  scalewatch_options options{};
  options.size = sizeof options;
  options.run = "host";
  options.server = server.c_str();
  scalewatch_monitor* monitor = nullptr;
  return library.open(&options, &monitor) == SCALEWATCH_OK ? monitor : nullptr;
}

bool attempts(const Library& library, scalewatch_monitor* monitor, int count) {
  for (int i = 0; i < count; ++i) {
    if (library.begin_attempt(monitor, i) != SCALEWATCH_OK || library.end_attempt(monitor) != SCALEWATCH_OK) return false;
  }
  return library.wait_durable(monitor, 20'000) == SCALEWATCH_OK;
}

// Runs after the library's own static destructors.
struct Late {
  Library* library = nullptr;
  scalewatch_monitor* monitor = nullptr;
  ~Late() {
    if (library == nullptr) return;
    library->begin_attempt(monitor, 7);
    library->end_attempt(monitor);
    library->close(monitor, 1000, nullptr);
    std::printf("closed late, %s\n", opened(*library) == nullptr ? "not opened again" : "opened again");
    std::fflush(stdout);
  }
} late;

int use(const char* path, bool close_monitor) {
  Library library(path);
  scalewatch_monitor* monitor = opened(library);
  if (monitor == nullptr || !attempts(library, monitor, 3)) return 1;
  if (close_monitor && library.close(monitor, 20'000, nullptr) != SCALEWATCH_OK) return 2;
  if (dlclose(library.handle) != 0) return 3;
  // It stays: threads of gRPC may still run in its code, and what is buffered is sent at exit.
  return dlopen(path, RTLD_NOW | RTLD_NOLOAD) != nullptr ? 0 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 98;
  const std::string way = argv[1];
  const char* path = argv[2];
  server = argv[3];
  if (way == "closed and unloaded") {
    for (int i = 0; i < 3; ++i) {
      if (const int bad = use(path, true); bad != 0) return bad;
    }
    return 0;
  }
  if (way == "unloaded while open") return use(path, false);
  static Library library(path);
  late.library = &library;
  late.monitor = opened(library);
  if (late.monitor == nullptr) return 1;
  if (way == "first used late") return 0;
  return attempts(library, late.monitor, 3) ? 0 : 2;  // "closed late"
}
