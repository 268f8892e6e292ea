// What to say when a command line was not understood. Pure.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <string>

namespace scalewatch::cli {

// One line, safe to print: an unknown command or option with the one that was probably meant, or the parser's own words.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace scalewatch::cli
