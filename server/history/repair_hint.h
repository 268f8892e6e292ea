// What to do about a damaged history, as every error about one says it.
#pragma once

#include <filesystem>
#include <string>

namespace scalewatch::history {

// file: the damaged one. Nothing for files that are not a server's history, such as a copy of it.
inline std::string repair_hint(const std::filesystem::path& file) {
  if (file.filename() != "history.db") return "";
  return "; to keep what is sound of it, stop the server and run: scalewatch admin --data-dir " + file.parent_path().string() +
         " verify --repair";
}

}  // namespace scalewatch::history
