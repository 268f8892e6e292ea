// Names of the spool's folders and the record that says whose they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client_lib/src/spool.h"

namespace scalewatch::client {

// What the names of all folders of this run and rank begin with. The rest sorts by age.
[[nodiscard]] std::string folder_prefix(std::string_view run, std::uint32_t rank);
[[nodiscard]] std::string folder_name(const SpoolOwner& owner);

[[nodiscard]] std::string pack_owner(const SpoolOwner& owner);
[[nodiscard]] std::optional<SpoolOwner> unpack_owner(std::string_view bytes);

}  // namespace scalewatch::client
