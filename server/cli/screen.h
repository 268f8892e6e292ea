// Where a view writes, and what that place can show.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "server/cli/options.h"
#include "server/cli/text/layout.h"
#include "server/cli/text/units.h"
#include "server/names/escape.h"

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
  TimeStyle time = TimeStyle::kRelative;

  [[nodiscard]] std::string paint(std::string_view text, text::Style style) const { return text::paint(text, style, color); }
  // Prints a sentence in lines of at most `width` columns.
  void say(std::string_view text, text::Style style = text::Style::kPlain) const {
    for (const auto& line : text::wrap(text, width)) out << paint(line, style) << '\n';
  }
  // A name of somebody else's making, safe to print.
  [[nodiscard]] static std::string name(std::string_view bytes) { return names::escape(bytes); }
  // A moment as the reader wants it told: "3 min ago", or a date and time; "never" for 0. Unix milliseconds.
  [[nodiscard]] std::string when(std::int64_t unix_ms) const {
    if (unix_ms == 0) return "never";
    if (time == TimeStyle::kRelative) return text::ago(now_ms - unix_ms);
    return time == TimeStyle::kUtc ? text::utc(unix_ms) : text::local(unix_ms);
  }
  // The same in at most 12 columns: without the year of now, and without seconds.
  [[nodiscard]] std::string when_briefly(std::int64_t unix_ms) const {
    const auto whole = when(unix_ms);
    constexpr std::size_t kDate = 10;
    if (unix_ms == 0 || time == TimeStyle::kRelative || whole.size() < 19) return whole;
    if (!when(now_ms).starts_with(whole.substr(0, 4))) return whole.substr(0, kDate);
    return whole.substr(5, 11) + (time == TimeStyle::kUtc ? "Z" : "");
  }
  // Columns for plots: bounded also where the width is not.
  [[nodiscard]] int plot_width() const { return width > 0 && width < 200 ? width : 200; }
};

}  // namespace scalewatch::cli
