// Logs as commands read them: with a progress bar, followed or to their end. See logimport/source.h.
#pragma once

#include <functional>
#include <ostream>
#include <stop_token>
#include <string>
#include <vector>

#include "server/cli/client.h"
#include "server/cli/screen.h"
#include "server/logimport/diagnose.h"
#include "server/logimport/source.h"

namespace scalewatch::cli {

// The files in a sentence.
std::string files_text(const std::vector<std::string>& files);

// Nothing in them is of a training run: says what was looked for. Throws CallError.
[[noreturn]] void throw_nothing(const std::vector<std::string>& files, const std::string& format,
                                const logimport::ReadSummary& summary);

// Reads to the end, or with `follow` until `stop` is requested; then `idle` is called whenever all that was written is judged.
// `progress` may be null. Throws CallError for a file that can't be read.
logimport::SourceReport read_files(const std::vector<std::string>& files, bool follow, const std::function<void()>& idle,
                                   std::ostream* progress, const std::stop_token& stop, logimport::LogDoctor& doctor);

}  // namespace scalewatch::cli
