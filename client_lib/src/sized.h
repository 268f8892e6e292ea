// Structs of the C ABI that begin with their size.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "client_lib/src/arguments.h"

namespace scalewatch::client {

// A copy of the caller's, who may know fewer fields (the others are 0) or more.
template <class T>
T sized(const T* from, const char* what) {
  if (from == nullptr) refuse(std::string(what) + " is NULL");
  if (from->size < sizeof(std::size_t)) refuse(std::string(what) + "->size is not set");
  if (from->size >= sizeof(T)) return *from;
  T copy{};
  std::memcpy(&copy, from, from->size - from->size % alignof(T));  // no half of a pointer
  return copy;
}

}  // namespace scalewatch::client
