// Completion scripts for shells, made from the same tree of commands and options that --help prints.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace scalewatch::cli {

// "bash", "zsh", "fish"
const std::vector<std::string>& shell_choices();

// The script for one of shell_choices().
std::string completion_script(const CLI::App& app, const std::string& shell);

// The manual page, in man(7)'s language, from the same tree.
std::string man_page(const CLI::App& app);

}  // namespace scalewatch::cli
