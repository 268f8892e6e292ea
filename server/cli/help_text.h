// What the parser prints for --help, fit for a terminal.
#pragma once

#include <ostream>
#include <string>

namespace scalewatch::cli {

// Long lines are broken under where their description begins. width: columns; 0 = no limit.
void print_help(const std::string& help, int width, std::ostream& out);

}  // namespace scalewatch::cli
