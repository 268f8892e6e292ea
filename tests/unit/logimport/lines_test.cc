#include "server/logimport/lines.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "server/logimport/line.h"

namespace scalewatch::logimport {
namespace {

using ::testing::ElementsAre;

class Pieces : public PieceSink {
 public:
  void piece(const Piece& piece) override {
    texts.push_back(std::to_string(piece.number) + "." + std::to_string(piece.piece) + " " +
                    std::string(piece.text.substr(0, 40)));
    longest = std::max(longest, piece.text.size());
    cuts += piece.cut ? 1 : 0;
  }
  const Heads& heads() const override { return heads_; }
  Heads heads_{{}};
  std::vector<std::string> texts;
  std::size_t longest = 0;
  int cuts = 0;
};

Pieces split(std::string_view text, std::size_t block) {
  Pieces pieces;
  LineSplitter splitter(pieces);
  for (std::size_t at = 0; at < text.size(); at += block) splitter.feed(text.substr(at, block));
  splitter.finish();
  return pieces;
}

TEST(LinesTest, LinesPiecesAndCodesWhereverTheBytesAreCut) {
  const std::string text =
      "one\r\ntwo\x1b[31m red\x1b[0m end  \n\n10%\r20%\r30%\nlink \x1b]8;;http://x\x1b\\here\x1b]8;;\x07\nlast";
  for (std::size_t block = 1; block <= text.size(); ++block) {
    EXPECT_THAT(split(text, block).texts,
                ElementsAre("1.0 one", "2.0 two red end", "4.0 10%", "4.1 20%", "4.2 30%", "5.0 link here", "6.0 last"))
        << block;
  }
}

TEST(LinesTest, LongLinesAreCutAndSaidSo) {
  const std::string text =
      std::string(3 * kMaxLineBytes, 'x') + "\nafter\n" + std::string(2 * kMaxLineBytes, 'y') + "\rpiece\n";
  for (const std::size_t block : {std::size_t{1000}, text.size()}) {
    const Pieces pieces = split(text, block);
    EXPECT_EQ(pieces.texts.size(), 4U);
    EXPECT_EQ(pieces.cuts, 2);
    EXPECT_EQ(pieces.longest, kMaxLineBytes);
    EXPECT_EQ(pieces.texts.back(), "3.1 piece");
  }
}

}  // namespace
}  // namespace scalewatch::logimport
