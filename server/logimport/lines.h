// Cuts bytes into lines, and lines into the pieces between carriage returns; takes ANSI codes out. What a progress bar redraws
// on one line are pieces of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace scalewatch::logimport {

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // Never empty; text is good only during the call. number from 1, piece from 0; cut: longer than kMaxLineBytes.
  virtual void piece(std::string_view text, std::uint64_t number, std::uint32_t piece, bool cut) = 0;
};

// Where a byte stands next in a block. Looked for again only once it has been passed, so that short lines cost nothing.
class NextByte {
 public:
  explicit NextByte(char byte) : byte_(byte) {}
  void begin(std::string_view block);
  // Parts of the block are asked for in order.
  bool within(std::string_view part);
  const char* at() const { return at_; }

 private:
  char byte_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;  // of the block
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
  void line(std::string_view text, bool ended);
  void give(std::string_view text, bool cut);
  void keep(std::string_view text);

  PieceSink& sink_;
  std::string held_;       // the beginning of a piece whose end has not come; at most kMaxLineBytes
  std::string plain_;      // a piece without its ANSI codes
  bool dropping_ = false;  // the held piece is full: what follows of it is dropped
  NextByte returns_{'\r'};
  NextByte escapes_{'\x1b'};
  std::uint64_t lines_ = 0;
  std::uint64_t lines_cut_ = 0;
  std::uint32_t piece_ = 0;
  bool begun_ = false;  // the line that is being read has bytes
};

}  // namespace scalewatch::logimport
