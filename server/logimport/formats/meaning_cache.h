// What a key means, remembered: a log prints the same few names over and over.
#pragma once

#include <string_view>

#include "server/logimport/formats/key_words.h"

namespace scalewatch::logimport {

// As meaning_of; good until the thread's next call. Each thread remembers 512 keys of at most 40 bytes; longer ones are judged
// anew.
const KeyMeaning& remembered_meaning(std::string_view key, bool exact);

}  // namespace scalewatch::logimport
