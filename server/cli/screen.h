// Where a view writes, and what that place can show.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "server/cli/text/escape.h"
#include "server/cli/text/layout.h"

namespace scalewatch::cli {

struct Screen {
  std::ostream& out;
  int width = 80;           // columns; 0 = no limit
  bool color = false;       // ANSI colours are wanted
  bool ascii = false;       // plots without Unicode
  bool json = false;        // machine-readable output in place of text
  std::int64_t now_ms = 0;  // Unix milliseconds that ages are told against
  // Where a word beside the output goes (progress, a summary of what was written); null: nowhere.
  std::ostream* err = nullptr;
  bool err_terminal = false;  // err is a terminal: lines may be overwritten
  bool terminal = false;      // out is a terminal that obeys control sequences

  [[nodiscard]] std::string paint(std::string_view text, text::Style style) const { return text::paint(text, style, color); }
  // A name of somebody else's making, safe to print.
  [[nodiscard]] static std::string name(std::string_view bytes) { return text::escape(bytes); }
  // Columns for plots: bounded also where the width is not.
  [[nodiscard]] int plot_width() const { return width > 0 && width < 200 ? width : 200; }
};

}  // namespace scalewatch::cli
