#include "server/cli/user.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace scalewatch::cli {

std::string user() {
  for (const char* name : {"USER", "LOGNAME"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  const passwd* entry = getpwuid(getuid());  // containers set no $USER
  return entry != nullptr ? entry->pw_name : "uid " + std::to_string(getuid());
}

}  // namespace scalewatch::cli
