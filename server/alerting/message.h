// An alert as a person reads it on a phone: what, where, since when, the number against its limit, what to do, where to look.
// Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "server/alerting/sink.h"

namespace scalewatch::alerting {

// Its texts are readable() but links.
struct Message {
  std::string title;    // "CRITICAL NonFiniteLoss in nightly-7", at most 150 bytes
  std::string text;     // lines without an end of line after the last, at most 1,500 bytes
  std::string link;     // of the run; empty without a public URL
  std::string runbook;  // empty when none is configured
  // The text and, where there are any, the links, each on a line of its own.
  [[nodiscard]] std::string whole() const;
};

Message message_of(const Notice& notice, const std::string& public_url);

// Text for people, in which no name can turn the order of what is around it or hide (names::escape); lines stay lines.
std::string readable(std::string_view text);

// At most `bytes` of it, cut between characters and marked with "...".
std::string cut(std::string text, std::size_t bytes);

}  // namespace scalewatch::alerting
