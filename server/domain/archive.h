// Binary archive of the domain's states: one `persist(archive)` member (or free function `persist(archive, value)`) writes
// and reads a type, so that both sides can't drift apart.
//
// Layout: magic, version, payload, FNV-1a of all before it; little-endian. The reader checks every bound, and throws
// std::runtime_error on bytes that the writer did not make. Pure; one archive is used by one thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

namespace scalewatch::domain {

static_assert(std::endian::native == std::endian::little, "states are stored as they lie in memory");

inline std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : bytes) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

template <class A, class T>
void persist_value(A& archive, T& value);

class Writer {
 public:
  static constexpr bool kLoading = false;
  Writer(std::uint32_t magic, std::uint32_t version) : version_(version) { (*this)(magic, version); }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  template <class... T>
  void operator()(T&&... values) {
    (persist_value(*this, values), ...);
  }
  void raw(void* data, std::size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  std::size_t size_prefix(std::size_t size) {
    auto count = static_cast<std::uint64_t>(size);
    raw(&count, sizeof count);
    return size;
  }
  std::string finish() && {
    std::uint64_t sum = fnv1a(bytes_);
    raw(&sum, sizeof sum);
    return std::move(bytes_);
  }

 private:
  const std::uint32_t version_;
  std::string bytes_;
};

class Reader {
 public:
  static constexpr bool kLoading = true;
  // Reads versions from `oldest` on, 0 being the newest alone; `persist` leaves out what they did not have.
  Reader(std::string_view bytes, std::uint32_t magic, std::uint32_t version, std::uint32_t oldest = 0) {
    if (bytes.size() < 16) throw std::runtime_error("state is truncated");
    const std::string_view body = bytes.substr(0, bytes.size() - 8);
    std::uint64_t sum = 0;
    std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
    if (sum != fnv1a(body)) throw std::runtime_error("state is corrupt: its checksum does not match");
    rest_ = body;
    std::uint32_t found_magic = 0;
    (*this)(found_magic, version_);
    if (found_magic != magic) throw std::runtime_error("state is of another kind");
    if (version_ > version || version_ < (oldest == 0 ? version : oldest)) {
      throw std::runtime_error(std::string("state has version ") + std::to_string(version_) + ", this program reads " +
                               std::to_string(version));
    }
  }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  template <class... T>
  void operator()(T&... values) {
    (persist_value(*this, values), ...);
  }
  void raw(void* data, std::size_t size) {
    if (size > rest_.size()) throw std::runtime_error("state is truncated");
    std::memcpy(data, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  // Every element takes at least a byte, so a count never makes us allocate more than the bytes can fill.
  std::size_t size_prefix(std::size_t /*unused*/) {
    std::uint64_t count = 0;
    raw(&count, sizeof count);
    if (count > rest_.size()) throw std::runtime_error("state is corrupt: a count exceeds its bytes");
    return count;
  }
  void finish() const {
    if (!rest_.empty()) throw std::runtime_error("state is corrupt: bytes are left over");
  }

 private:
  std::string_view rest_;
  std::uint32_t version_ = 0;  // of the bytes
};

namespace archive_detail {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsSequence : std::false_type {};
template <class T>
struct IsSequence<std::vector<T>> : std::true_type {};
template <class T>
struct IsSequence<std::deque<T>> : std::true_type {};
template <class T, std::size_t N>
struct IsSequence<boost::container::small_vector<T, N>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class K, class V, class C>
struct IsMap<std::map<K, V, C>> : std::true_type {};
template <class T>
struct IsPair : std::false_type {};
template <class K, class V>
struct IsPair<std::pair<K, V>> : std::true_type {};
}  // namespace archive_detail

template <class A, class T>
void persist_value(A& archive, T& value) {
  using V = std::remove_const_t<T>;
  using namespace archive_detail;
  if constexpr (std::is_same_v<V, bool>) {
    std::uint8_t byte = A::kLoading ? 0 : static_cast<std::uint8_t>(value);
    archive.raw(&byte, 1);
    if constexpr (A::kLoading) {
      if (byte > 1) throw std::runtime_error("state is corrupt: a flag is neither 0 nor 1");
      value = byte == 1;
    }
  } else if constexpr (std::is_arithmetic_v<V> || std::is_enum_v<V>) {
    archive.raw(const_cast<V*>(&value), sizeof value);
  } else if constexpr (std::is_same_v<V, std::string>) {
    const std::size_t size = archive.size_prefix(value.size());
    if constexpr (A::kLoading) value.resize(size);
    archive.raw(const_cast<char*>(value.data()), size);
  } else if constexpr (IsOptional<V>::value) {
    bool has = value.has_value();
    archive(has);
    if constexpr (A::kLoading) {
      if (has) {
        value.emplace();
      } else {
        value.reset();
      }
    }
    if (has) archive(*value);
  } else if constexpr (IsSequence<V>::value) {
    const std::size_t size = archive.size_prefix(value.size());
    if constexpr (A::kLoading) {
      value.clear();
      for (std::size_t i = 0; i < size; ++i) {
        value.emplace_back();
        archive(value.back());
      }
    } else {
      for (auto& element : value) archive(element);
    }
  } else if constexpr (IsMap<V>::value) {
    const std::size_t size = archive.size_prefix(value.size());
    if constexpr (A::kLoading) {
      value.clear();
      for (std::size_t i = 0; i < size; ++i) {
        typename V::key_type key{};
        archive(key);
        archive(value[key]);
      }
    } else {
      for (auto& [key, element] : value) archive(key, element);
    }
  } else if constexpr (IsPair<V>::value) {
    archive(value.first, value.second);
  } else if constexpr (requires { value.persist(archive); }) {
    value.persist(archive);
  } else {
    persist(archive, value);
  }
}

}  // namespace scalewatch::domain
