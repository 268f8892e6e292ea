#include "server/names/escape.h"

#include <gtest/gtest.h>

namespace scalewatch::names {
namespace {

TEST(Escape, KeepsPrintableUtf8) {
  for (const char* name : {"layers.3.attn.qkv.weight", "Gewicht für ß", "重み.0", "🙂", ""}) EXPECT_EQ(escape(name), name);
}

TEST(Escape, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(escape("a\x1b[2Jb"), "a\\x1b[2Jb");               // C0
  EXPECT_EQ(escape("a\nb\tc\rd"), "a\\x0ab\\x09c\\x0dd");     // line control
  EXPECT_EQ(escape(std::string_view("a\0b", 3)), "a\\x00b");  // NUL
  EXPECT_EQ(escape("\x7f"), "\\x7f");                         // DEL
  EXPECT_EQ(escape("\xc2\x9b"
                   "31m"),
            "\\u009b31m");  // C1: CSI in one code point
  EXPECT_EQ(escape("abc\xe2\x80\xae"
                   "cba"),
            "abc\\u202ecba");                      // right-to-left override
  EXPECT_EQ(escape("\xe2\x81\xa6x"), "\\u2066x");  // isolate
  EXPECT_EQ(escape("a\xe2\x80\x8b"
                   "b"),
            "a\\u200bb");                               // zero-width space
  EXPECT_EQ(escape("a\xf3\xa0\x81\x81"), "a\\ue0041");  // a tag
}

TEST(Escape, ShowsMalformedBytes) {
  EXPECT_EQ(escape("\xff"), "\\xff");
  EXPECT_EQ(escape("\xc0\x80"), "\\xc0\\x80");           // overlong NUL
  EXPECT_EQ(escape("\xe2\x82"), "\\xe2\\x82");           // cut off
  EXPECT_EQ(escape("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(escape("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(escape("\xc3(ok"), "\\xc3(ok");
}

}  // namespace
}  // namespace scalewatch::names
