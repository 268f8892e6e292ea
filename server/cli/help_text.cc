#include "server/cli/help_text.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "server/cli/text/layout.h"

namespace scalewatch::cli {

void print_help(const std::string& help, int width, std::ostream& out) {
  constexpr std::size_t kColumn = 30;  // of descriptions, as CLI11 sets them
  std::istringstream lines(help);
  constexpr std::size_t kFull = 90;  // a line of a footer that is as long goes on in the next one
  std::string next;
  for (std::string line; std::getline(lines, line);) {
    while (line.size() >= kFull && line.front() != ' ' && lines.peek() != '\n' && lines.peek() != '-' &&
           std::getline(lines, next)) {
      line += ' ' + next;
      if (next.size() < kFull) break;
    }
    const bool described = line.size() > kColumn && line[kColumn] != ' ' && line[kColumn - 1] == ' ' && line.starts_with("  ");
    const std::size_t indent = described ? kColumn : std::min(line.find_first_not_of(' '), line.size());
    const int room = width > 0 ? std::max(20, width - static_cast<int>(indent)) : 0;
    std::string before = line.substr(0, indent);
    for (const auto& part : text::wrap(line.substr(indent), room))
      out << std::exchange(before, std::string(indent, ' ')) << part << '\n';
    if (indent == line.size()) out << line << '\n';
  }
}

}  // namespace scalewatch::cli
