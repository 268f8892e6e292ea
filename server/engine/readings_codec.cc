#include "server/engine/readings_codec.h"

#include <algorithm>

namespace scalewatch::engine {

namespace {

using nlohmann::json;

template <class T>
json encode(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

template <class T>
void decode(const json& in, std::optional<T>& value) {
  if (!in.is_null()) value = in.get<T>();
}

template <std::size_t N>
void decode(const json& in, std::array<std::uint64_t, N>& counts) {
  for (std::size_t i = 0; i < std::min(N, in.size()); ++i) in.at(i).get_to(counts.at(i));
}

}  // namespace

json encode_readings(const RunReadings& readings) {
  json out{{"scalers", json::array()},
           {"gradient_norm", encode(readings.gradient_norm)},
           {"roles", json::array()},
           {"tensors", json::array()},
           {"elements", readings.counts.non_finite_elements},
           {"attempts", readings.counts.non_finite_attempts},
           {"losses", readings.counts.non_finite_losses},
           {"skips", readings.counts.skips},
           {"applied", readings.counts.non_finite_applied}};
  for (const auto& scaler : readings.scalers) out["scalers"].push_back({encode(scaler.hysteresis), encode(scaler.floor)});
  for (const RoleReading& role : readings.roles) {
    out["roles"].push_back({encode(role.headroom), role.non_zero, role.under, encode(role.worst_under)});
  }
  for (const TensorReading& tensor : readings.tensors) {
    out["tensors"].push_back({tensor.name, static_cast<int>(tensor.role), tensor.headroom});
  }
  return out;
}

RunReadings decode_readings(const json& in) {
  RunReadings out;
  for (const json& scaler : in.at("scalers")) {
    auto& to = out.scalers.emplace_back();
    decode(scaler.at(0), to.hysteresis);
    decode(scaler.at(1), to.floor);
  }
  decode(in.at("gradient_norm"), out.gradient_norm);
  const json& roles = in.at("roles");
  for (std::size_t i = 0; i < std::min(kRoles, roles.size()); ++i) {
    RoleReading& to = out.roles.at(i);
    decode(roles[i].at(0), to.headroom);
    roles[i].at(1).get_to(to.non_zero);
    roles[i].at(2).get_to(to.under);
    decode(roles[i].at(3), to.worst_under);
  }
  for (const json& tensor : in.at("tensors")) {
    const int role = tensor.at(1);
    if (role < 0 || static_cast<std::size_t>(role) >= kRoles) continue;
    out.tensors.push_back({tensor.at(0), static_cast<Role>(role), tensor.at(2)});
  }
  decode(in.at("elements"), out.counts.non_finite_elements);
  decode(in.at("attempts"), out.counts.non_finite_attempts);
  in.at("losses").get_to(out.counts.non_finite_losses);
  decode(in.at("skips"), out.counts.skips);
  in.at("applied").get_to(out.counts.non_finite_applied);
  return out;
}

}  // namespace scalewatch::engine
