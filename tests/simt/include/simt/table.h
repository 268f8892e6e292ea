// Makes a kernel callable by the addresses of its arguments.
#pragma once

#include <cstddef>
#include <utility>

#include "tests/simt/harness/simt.h"

namespace simt {

template <auto kFunction>
struct Caller;

template <class... Args, void (*kFunction)(Args...)>
struct Caller<kFunction> {
  static void call(void** params) { call_with(params, std::index_sequence_for<Args...>{}); }

 private:
  template <std::size_t... kAt>
  static void call_with(void** params, std::index_sequence<kAt...> /*at*/) {
    kFunction(*static_cast<Args*>(params[kAt])...);
  }
};

}  // namespace simt

#define SIMT_KERNEL(function)                  \
  ::simt::Kernel {                             \
    #function, ::simt::Caller<&function>::call \
  }
