// Cuts bytes into lines, and lines into the pieces between carriage returns; takes ANSI codes out. What a progress bar redraws
// on one line are pieces of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/logimport/marks.h"

namespace scalewatch::logimport {

struct Piece {
  std::string_view text;     // never empty; good only during the call
  std::uint64_t number = 0;  // of the line, from 1
  std::uint32_t piece = 0;   // from 0, within the line
  bool cut = false;          // longer than kMaxLineBytes
  Bits heads;                // of the block in which the text begins at `at`; not known where it was put together
  std::size_t at = 0;
};

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(const Piece& piece) = 0;
  // Words that it will look for.
  virtual const Heads& heads() const = 0;
};

class LineSplitter {
 public:
  explicit LineSplitter(PieceSink& sink) : sink_(sink) {}

  // Bytes in order, cut anywhere. Lines that lie whole in bytes are not copied, unless they hold ANSI codes.
  void feed(std::string_view bytes);
  // No more bytes: gives out a last line without its end.
  void finish();

  std::uint64_t lines() const { return lines_; }
  std::uint64_t lines_cut() const { return lines_cut_; }  // pieces, to be exact

 private:
  void begin_line();
  // A piece has ended: bytes that begin at `at` of the block.
  void give(std::string_view text, std::size_t at, bool escapes);
  void keep(std::string_view text);

  PieceSink& sink_;
  std::string held_;       // the beginning of a piece whose end has not come; at most kMaxLineBytes
  std::string plain_;      // a piece without its ANSI codes
  bool dropping_ = false;  // the held piece is full: what follows of it is dropped
  Marks marks_;            // of the block
  std::uint64_t lines_ = 0;
  std::uint64_t lines_cut_ = 0;
  std::uint32_t piece_ = 0;
  bool begun_ = false;  // the line that is being read has bytes
};

}  // namespace scalewatch::logimport
