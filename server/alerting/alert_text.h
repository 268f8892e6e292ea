// How sinks write what alerts hold. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "scalewatch/v1/alerts.pb.h"

namespace scalewatch::alerting {

// "2026-01-31T12:00:00.123Z".
std::string rfc3339(std::int64_t unix_ms);

// A number as JSON has it; NaN and infinities, which JSON lacks, as "NaN", "Infinity", "-Infinity".
nlohmann::json number(double value);

// Valid JSON whatever bytes the strings hold: broken UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::json& json);

// Bytes outside RFC 3986's unreserved characters (and those in `keep`) as %XX.
std::string percent_encoded(std::string_view text, std::string_view keep);

std::string_view severity_name(v1::Severity severity);

bool has_control(std::string_view text);
// What is wrong with the name of who does something; empty when it is 1 to 128 bytes without control characters.
std::string who_fault(std::string_view who);

// Short, for one line: "skipped 12 attempts (limit 5), excess 9 attempts".
std::string evidence_line(const v1::Finding& finding);

// Adds to the newest entry of the trail how far the server was behind when it came.
void note_behind(v1::Alert& alert, double seconds);
// What the newest entries, those of one moment, say of that: "the server was 3.4 s behind"; empty when it was not.
std::string_view behind(const v1::Alert& alert);

// Where people read more about the alert's run; empty without a public URL.
std::string link(const std::string& public_url, const v1::Alert& alert);

}  // namespace scalewatch::alerting
