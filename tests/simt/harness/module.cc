#include "tests/simt/harness/module.h"

#include <link.h>

#include <cstdint>

// What compilers call for the address of a thread-local variable: it makes the object's instance if there is none yet.
struct TlsIndex {
  std::size_t module;
  std::size_t offset;
};
extern "C" void* __tls_get_addr(TlsIndex* index);  // NOLINT(bugprone-reserved-identifier): the platform's name

namespace simt {
namespace {

struct Search {
  std::uintptr_t address;
  std::size_t module = 0;
  std::size_t bytes = 0;
};

int visit(dl_phdr_info* object, std::size_t /*size*/, void* context) {
  auto& search = *static_cast<Search*>(context);
  bool holds = false;
  std::size_t bytes = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t start = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && search.address >= start && search.address - start < part.p_memsz) holds = true;
    if (part.p_type == PT_TLS) bytes = part.p_memsz;
  }
  if (!holds) return 0;
  search.module = object->dlpi_tls_modid;
  search.bytes = bytes;
  return 1;
}

}  // namespace

SharedStorage shared_storage_of(const Kernel& kernel) {
  Search search{reinterpret_cast<std::uintptr_t>(kernel.call)};
  dl_iterate_phdr(visit, &search);
  if (search.bytes == 0) return {};
  TlsIndex index{search.module, 0};
  return {static_cast<std::byte*>(__tls_get_addr(&index)), search.bytes};
}

}  // namespace simt
