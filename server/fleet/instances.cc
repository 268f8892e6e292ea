#include "server/fleet/instances.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <stdexcept>

namespace scalewatch::fleet {

namespace {

constexpr std::size_t kMost = 100;
constexpr std::size_t kLongestName = 64;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kLongestName && std::all_of(text.begin(), text.end(), fits);
}

bool is_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view digits = text.substr(colon + 1);
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc() && end == digits.data() + digits.size() && port >= 1 && port <= 65535 &&
         text.find_first_of("/ =,") == std::string_view::npos;
}

// FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): every input bit reaches every output bit.
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

std::vector<Instance> parse_instances(const std::string& text, const std::string& self) {
  std::vector<Instance> all;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    const auto equals = entry.find('=');
    const std::string_view name = trimmed(entry.substr(0, equals));
    const std::string_view address = equals == std::string_view::npos ? std::string_view() : trimmed(entry.substr(equals + 1));
    if (!is_name(name) || !is_address(address)) {
      throw std::invalid_argument("\"" + std::string(entry) + "\" is no NAME=HOST:PORT");
    }
    for (const Instance& other : all) {
      if (other.name == name) throw std::invalid_argument("\"" + other.name + "\" is there twice");
      if (other.address == address) throw std::invalid_argument(other.address + " is there twice");
    }
    all.push_back({std::string(name), std::string(address)});
  }
  if (all.size() > kMost) throw std::invalid_argument("more than " + std::to_string(kMost) + " servers");
  const auto is_self = [&](const Instance& instance) { return instance.name == self; };
  if (std::none_of(all.begin(), all.end(), is_self)) {
    throw std::invalid_argument("fleet.self is \"" + self + "\", which is none of them");
  }
  return all;
}

std::uint64_t weight_of(std::string_view run, std::string_view instance) {
  return mixed(mixed(hash(run)) + hash(instance));
}

std::vector<std::size_t> ranking(std::string_view run, const std::vector<Instance>& all) {
  std::vector<std::uint64_t> weights;
  weights.reserve(all.size());
  for (const Instance& instance : all) weights.push_back(weight_of(run, instance.name));
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : all[a].name < all[b].name;
  });
  return order;
}

}  // namespace scalewatch::fleet
