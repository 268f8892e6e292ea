#include "client_lib/src/spool_folder.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_message.hpp>

namespace scalewatch::client {
namespace {

constexpr std::size_t kNameBytes = 64;  // of the run's name, which a person should recognise

enum class Field : protozero::pbf_tag_type { kRun = 1, kRank = 2, kIncarnation = 3, kOrder = 4, kHello = 5 };

std::string hex(std::uint64_t value, int digits) {
  std::array<char, 20> text{};
  const int length = std::snprintf(text.data(), text.size(), "%0*llx", digits, static_cast<unsigned long long>(value));
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

std::string folder_prefix(std::string_view run, std::uint32_t rank) {
  std::string name(run.substr(0, kNameBytes));
  std::ranges::replace_if(
      name,
      [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_');
      },
      '_');
  const auto crc = crc32_z(0, reinterpret_cast<const unsigned char*>(run.data()), run.size());
  return name + "-" + hex(crc, 8) + "." + std::to_string(rank) + ".";
}

std::string folder_name(const SpoolOwner& owner) {
  std::string name = folder_prefix(owner.run, owner.rank) + hex(owner.incarnation_order, 16) + "-";
  for (const char c : owner.incarnation.substr(0, 16)) name += hex(static_cast<unsigned char>(c), 2);
  return name;
}

std::string pack_owner(const SpoolOwner& owner) {
  std::string bytes;
  protozero::pbf_builder<Field> out(bytes);
  out.add_string(Field::kRun, owner.run);
  out.add_uint32(Field::kRank, owner.rank);
  out.add_bytes(Field::kIncarnation, owner.incarnation);
  out.add_uint64(Field::kOrder, owner.incarnation_order);
  out.add_bytes(Field::kHello, owner.hello);
  return bytes;
}

std::optional<SpoolOwner> unpack_owner(std::string_view bytes) {
  SpoolOwner owner;
  try {
    protozero::pbf_message<Field> in(bytes.data(), bytes.size());
    while (in.next()) {
      switch (in.tag()) {
        case Field::kRun:
          owner.run = in.get_string();
          break;
        case Field::kRank:
          owner.rank = in.get_uint32();
          break;
        case Field::kIncarnation:
          owner.incarnation = in.get_bytes();
          break;
        case Field::kOrder:
          owner.incarnation_order = in.get_uint64();
          break;
        case Field::kHello:
          owner.hello = in.get_bytes();
          break;
        default:
          in.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return owner;
}

}  // namespace scalewatch::client
