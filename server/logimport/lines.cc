#include "server/logimport/lines.h"

#include <algorithm>
#include <cstring>

#include "server/logimport/line.h"

namespace scalewatch::logimport {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';

bool holds(std::string_view text, char c) {
  return !text.empty() && std::memchr(text.data(), c, text.size()) != nullptr;
}

// The end of the ANSI code that begins at `at`: CSI (ESC [ ... letter), OSC (ESC ] ... BEL or ESC \), or ESC and one byte.
std::size_t code_end(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size()) return text.size();
  const char kind = text[at + 1];
  std::size_t end = at + 2;
  if (kind == '[') {
    while (end < text.size() && text[end] >= 0x20 && text[end] <= 0x3f) ++end;
    return end < text.size() && text[end] >= 0x40 && text[end] <= 0x7e ? end + 1 : end;
  }
  if (kind == ']') {
    while (end < text.size() && text[end] != kBell && text[end] != kEscape) ++end;
    if (end + 1 < text.size() && text[end] == kEscape && text[end + 1] == '\\') return end + 2;
    return end < text.size() && text[end] == kBell ? end + 1 : end;
  }
  return end;
}

void strip_codes(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t code = std::min(text.find(kEscape, at), text.size());
    out.append(text, at, code - at);
    at = code < text.size() ? code_end(text, code) : code;
  }
}

}  // namespace

void NextByte::begin(std::string_view block) {
  at_ = nullptr;
  end_ = block.data() + block.size();
}

bool NextByte::within(std::string_view part) {
  if (part.empty()) return false;
  if (at_ < part.data()) {
    const void* found = std::memchr(part.data(), byte_, static_cast<std::size_t>(end_ - part.data()));
    at_ = found != nullptr ? static_cast<const char*>(found) : end_;
  }
  return at_ < part.data() + part.size();
}

void LineSplitter::feed(std::string_view bytes) {
  returns_.begin(bytes);
  escapes_.begin(bytes);
  while (!bytes.empty()) {
    const void* found = std::memchr(bytes.data(), '\n', bytes.size());
    if (found == nullptr) {
      line(bytes, false);
      return;
    }
    const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
    line(bytes.substr(0, length), true);
    bytes.remove_prefix(length + 1);
  }
}

void LineSplitter::finish() {
  if (begun_) line({}, true);
}

// A part of a line, with its end or without.
void LineSplitter::line(std::string_view text, bool ended) {
  if (!begun_) {
    ++lines_;
    piece_ = 0;
    begun_ = true;
  }
  while (returns_.within(text)) {
    const auto end = static_cast<std::size_t>(returns_.at() - text.data());
    give(text.substr(0, end), false);
    text.remove_prefix(end + 1);
  }
  if (ended) {
    give(text, false);
    begun_ = false;
  } else {
    keep(text);
  }
}

void LineSplitter::keep(std::string_view text) {
  const std::size_t room = kMaxLineBytes - held_.size();
  held_.append(text.substr(0, room));
  if (text.size() > room) dropping_ = true;
}

void LineSplitter::give(std::string_view text, bool cut) {
  bool escapes = escapes_.within(text);
  if (!held_.empty()) {
    keep(text);
    text = held_;
    cut = dropping_;
    escapes = holds(text, kEscape);
  } else if (text.size() > kMaxLineBytes) {
    text = text.substr(0, kMaxLineBytes);
    cut = true;
  }
  if (cut) ++lines_cut_;
  if (escapes) {
    strip_codes(text, plain_);
    text = plain_;
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (!text.empty()) sink_.piece(text, lines_, piece_, cut);
  ++piece_;
  held_.clear();
  dropping_ = false;
}

}  // namespace scalewatch::logimport
