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

void LineSplitter::feed(std::string_view bytes) {
  marks_.look(bytes, sink_.heads());
  std::size_t begin = 0;
  bool escapes = false;
  marks_.breaks().each(0, bytes.size(), [&](std::size_t at) {
    if (bytes[at] == kEscape) {
      escapes = true;
      return;
    }
    begin_line();
    give(bytes.substr(begin, at - begin), begin, escapes);
    if (bytes[at] == '\n') begun_ = false;
    begin = at + 1;
    escapes = false;
  });
  if (begin == bytes.size()) return;
  begin_line();
  keep(bytes.substr(begin));
}

void LineSplitter::finish() {
  if (begun_) give({}, 0, false);
  begun_ = false;
}

void LineSplitter::begin_line() {
  if (begun_) return;
  ++lines_;
  piece_ = 0;
  begun_ = true;
}

void LineSplitter::keep(std::string_view text) {
  const std::size_t room = kMaxLineBytes - held_.size();
  held_.append(text.substr(0, room));
  if (text.size() > room) dropping_ = true;
}

void LineSplitter::give(std::string_view text, std::size_t at, bool escapes) {
  Piece piece{text, lines_, piece_++, false, marks_.heads(), at};
  if (!held_.empty()) {
    keep(text);
    piece.text = held_;
    piece.cut = dropping_;
    piece.heads = {};
    escapes = holds(held_, kEscape);
  } else if (text.size() > kMaxLineBytes) {
    piece.text = text.substr(0, kMaxLineBytes);
    piece.cut = true;
  }
  if (piece.cut) ++lines_cut_;
  if (escapes) {
    strip_codes(piece.text, plain_);
    piece.text = plain_;
    piece.heads = {};
  }
  while (!piece.text.empty() && (piece.text.back() == ' ' || piece.text.back() == '\t')) piece.text.remove_suffix(1);
  if (!piece.text.empty()) sink_.piece(piece);
  held_.clear();
  dropping_ = false;
}

}  // namespace scalewatch::logimport
