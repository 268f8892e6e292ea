#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "server/cli/finding_text.h"
#include "server/cli/text/layout.h"
#include "server/cli/text/plot.h"
#include "server/cli/text/table.h"
#include "server/cli/text/units.h"

namespace scalewatch::cli::text {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Layout, WidthCountsColumns) {
  EXPECT_EQ(display_width(""), 0);
  EXPECT_EQ(display_width("weight"), 6);
  EXPECT_EQ(display_width("für"), 3);
  EXPECT_EQ(display_width("u\xcc\x88"), 1);  // combining diaeresis
  EXPECT_EQ(display_width("重み"), 4);
  EXPECT_EQ(display_width("🙂"), 2);
}

TEST(Layout, TruncatesInTheMiddle) {
  EXPECT_EQ(truncate_middle("layers.3.weight", 15), "layers.3.weight");
  EXPECT_EQ(truncate_middle("layers.3.weight", 9), "laye…ight");
  EXPECT_EQ(truncate_middle("layers.3.weight", 9, true), "lay..ight");
  EXPECT_EQ(truncate_middle("layers.3.weight", 0), "layers.3.weight");
  EXPECT_EQ(truncate_middle("weight", 1), "w");
  // A wide character that does not fit whole is left out.
  EXPECT_EQ(truncate_middle("重み重み", 6), "重…み");
  EXPECT_LE(display_width(truncate_middle("重み重み重み", 7)), 7);
}

TEST(Layout, PadsByColumns) {
  EXPECT_EQ(pad("重", 4), "重  ");
  EXPECT_EQ(pad("ab", 4, Align::kRight), "  ab");
  EXPECT_EQ(pad("abcde", 3), "abcde");
}

TEST(Layout, WrapsAtBlanks) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("  a   b ", 10), (std::vector<std::string>{"a b"}));
  EXPECT_EQ(wrap("unbreakable", 4), (std::vector<std::string>{"unbreakable"}));
  EXPECT_EQ(wrap("a b", 0), (std::vector<std::string>{"a b"}));
  EXPECT_TRUE(wrap("", 10).empty());
}

TEST(Layout, PaintsOnlyWhenAsked) {
  EXPECT_EQ(paint("x", Style::kCritical, false), "x");
  EXPECT_EQ(paint("x", Style::kWarning, true), "\x1b[33mx\x1b[0m");
  EXPECT_EQ(paint("x", Style::kPlain, true), "x");
}

TEST(Units, Counts) {
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(999), "999");
  EXPECT_EQ(count(1000), "1.0k");
  EXPECT_EQ(count(1234), "1.2k");
  EXPECT_EQ(count(99'999), "100k");
  EXPECT_EQ(count(999'499), "999k");
  EXPECT_EQ(count(999'500), "1.0M");
  EXPECT_EQ(count(3'400'000), "3.4M");
  EXPECT_EQ(count(std::numeric_limits<std::uint64_t>::max()), "18.4E");
  EXPECT_EQ(exact(0), "0");
  EXPECT_EQ(exact(123), "123");
  EXPECT_EQ(exact(1'234'567), "1,234,567");
}

TEST(Units, Magnitudes) {
  EXPECT_EQ(magnitude(0), "0");
  EXPECT_EQ(magnitude(1e-7), "1.0e-07");
  EXPECT_EQ(magnitude(0.25), "0.25");
  EXPECT_EQ(magnitude(-2.34567), "-2.346");
  EXPECT_EQ(magnitude(9999.6), "10000");
  EXPECT_EQ(magnitude(65504), "65504");
  EXPECT_EQ(magnitude(99'999.6), "1.0e+05");
  EXPECT_EQ(magnitude(kNan), "NaN");
  EXPECT_EQ(magnitude(kInf), "Inf");
  EXPECT_EQ(magnitude(-kInf), "-Inf");
}

TEST(Units, Scales) {
  EXPECT_EQ(scale(65536), "2^16");
  EXPECT_EQ(scale(1), "2^0");
  EXPECT_EQ(scale(0.0078125), "2^-7");
  EXPECT_EQ(scale(1000), "1000");
  EXPECT_EQ(scale(0), "0");
  EXPECT_EQ(scale(kNan), "NaN");
  EXPECT_EQ(scale(kInf), "Inf");
}

TEST(Evidence, ScalesArePowersOfTwoAndOtherNumbersAreNot) {
  EXPECT_EQ(evidence_text({"init_scale", 4294967296, "", 1}), "init scale 2^32 (limit 1)");
  EXPECT_EQ(evidence_text({"scale", std::ldexp(1.0, -14), "", std::ldexp(1.0, -7)}), "scale 2^-14 (limit 2^-7)");
  EXPECT_EQ(evidence_text({"scale", 512, "", {}}), "scale 512");
  EXPECT_EQ(evidence_text({"scale", 40000, "", {}}), "scale 40000");
  EXPECT_EQ(evidence_text({"attempts", 1024, "attempts", 2048}), "attempts 1024 attempts (limit 2048)");
}

TEST(Units, PercentNeverRoundsAwayAFault) {
  EXPECT_EQ(percent(1, 8), "12.5%");
  EXPECT_EQ(percent(1, 100'000), "<0.1%");
  EXPECT_EQ(percent(0, 10), "0%");
  EXPECT_EQ(percent(10, 10), "100%");
  EXPECT_EQ(percent(99'999, 100'000), ">99.9%");
  EXPECT_EQ(percent(0, 0), "-");
  EXPECT_EQ(percent(kNan, 1), "NaN");
}

TEST(Units, Times) {
  EXPECT_EQ(ago(12'400), "12 s ago");
  EXPECT_EQ(ago(119'999), "119 s ago");
  EXPECT_EQ(ago(120'000), "2 min ago");
  EXPECT_EQ(ago(3 * 3'600'000), "3 h ago");
  EXPECT_EQ(ago(72 * 3'600'000LL), "3 d ago");
  EXPECT_EQ(ago(-5'000), "now");
}

std::vector<Sample> samples(std::initializer_list<double> values) {
  std::vector<Sample> out;
  for (const double value : values) out.push_back(linear(value));
  return out;
}

TEST(Sparkline, SpansLowestToHighest) {
  EXPECT_EQ(sparkline(samples({0, 1, 2, 3, 4, 5, 6, 7}), 20), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(samples({0, 7}), 20, Keep::kLargest, true), "_#");
  EXPECT_EQ(sparkline(samples({5, 5, 5}), 20), "▄▄▄");
  EXPECT_EQ(sparkline({}, 20), "");
  EXPECT_EQ(sparkline(samples({1, 2}), 0), "");
}

TEST(Sparkline, SurvivesExtremes) {
  const double huge = std::numeric_limits<double>::max();
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(sparkline(samples({-huge, 0, huge}), 20), "▁▅█");
  EXPECT_EQ(sparkline(samples({0, tiny}), 20), "▄▄");
}

TEST(Sparkline, NeverLosesANan) {
  EXPECT_EQ(sparkline(samples({0, kNan, 7, kInf, 0}), 20), "▁N█I▁");
  // 100 samples in 10 columns, one of them NaN.
  std::vector<Sample> many(100, linear(1.0));
  many[42] = linear(kNan);
  EXPECT_EQ(sparkline(many, 10), "▄▄▄▄N▄▄▄▄▄");
  many[43] = linear(kInf);
  EXPECT_EQ(sparkline(many, 10), "▄▄▄▄N▄▄▄▄▄");
}

TEST(Sparkline, KeepsTheExtremeThatMatters) {
  std::vector<Sample> dip(10, linear(7.0));
  dip[3] = linear(0.0);
  EXPECT_EQ(sparkline(dip, 5, Keep::kSmallest), "█▁███");
  EXPECT_EQ(sparkline(dip, 5, Keep::kLargest), "▄▄▄▄▄");
}

TEST(Sparkline, LogAxisMarksZero) {
  EXPECT_EQ(sparkline(std::vector<Sample>{log2_of(1.0), log2_of(0.0), log2_of(128.0), log2_of(std::nullopt)}, 20), "▁0█ ");
}

TEST(Marks, ShareColumnsWithTheSparkline) {
  EXPECT_EQ(marks(std::vector<char>{0, '^', 0, 0}, 10), " ^");
  std::vector<char> many(100, 0);
  many[42] = '^';
  many[43] = 'N';
  many[99] = 'I';
  EXPECT_EQ(marks(many, 10), "    N    I");
  EXPECT_EQ(marks(std::vector<char>(5, 0), 10), "");
}

TEST(PlotScale, DrawsOctavesAndSkips) {
  std::vector<ScaleSample> series;
  const double scales[] = {65536, 65536, 32768, 16384, 16384};
  for (std::uint64_t i = 0; i < 5; ++i) series.push_back({i + 1, i + 1, scales[i], scales[i], i == 1 || i == 2});
  EXPECT_EQ(plot_scale(series, 80, 8, false), (std::vector<std::string>{
                                                  "  2^16 ┤••",
                                                  "  2^15 ┤  •",
                                                  "  2^14 ┤   ••",
                                                  " skips   ^^",
                                                  "        1   5",
                                              }));
  EXPECT_EQ(plot_scale(series, 80, 8, true)[0], "  2^16 |**");
}

TEST(PlotScale, FitsManyOctavesAndMarksWhatHasNoHeight) {
  std::vector<ScaleSample> series;
  for (std::uint64_t i = 0; i < 167; ++i) {
    const double scale = std::ldexp(1.0, 16 - static_cast<int>(i));
    const double seen = i >= 166 ? 0.0 : scale;
    series.push_back({i + 1, i + 1, seen, seen, true});
  }
  series.push_back({168, 168, kNan, kNan, false});
  const auto lines = plot_scale(series, 40, 8, false);
  EXPECT_LE(lines.size(), 10U);
  for (const auto& line : lines) EXPECT_LE(display_width(line), 40) << line;
  EXPECT_EQ(lines[lines.size() - 3].back(), 'N');
  EXPECT_TRUE(plot_scale({}, 80, 8, false).empty());
  EXPECT_TRUE(plot_scale(std::vector<ScaleSample>(3), 80, 8, false).empty());
}

TEST(PlotScale, LabelsSayWhatARowReallyHolds) {
  std::vector<ScaleSample> series;
  const double scales[] = {131072, 32768, 24576, 4096, 1};
  for (std::uint64_t i = 0; i < 5; ++i) series.push_back({i + 1, i + 1, scales[i], scales[i], false});
  // Six octaves a row: 2^17, 2^15 and 2^14.6 share one, and no row is called by a scale that never was.
  EXPECT_EQ(plot_scale(series, 80, 3, true), (std::vector<std::string>{
                                                 "2^12..17 |****",
                                                 "         |",
                                                 "     2^0 |    *",
                                                 "          1   5",
                                             }));
  series.resize(3);
  EXPECT_EQ(plot_scale(series, 80, 8, true)[3], "2^14.6 |  *");
}

std::string printed(const Table& table, int width, bool color = false, bool ascii = false) {
  std::ostringstream out;
  table.print(out, width, color, ascii);
  return out.str();
}

TEST(TableTest, AlignsAndFits) {
  Table table({{"NAME", Align::kLeft, true}, {"N", Align::kRight}, {"STATE"}});
  table.add({{"重み.weight"}, {"1"}, {"ok"}});
  table.add({{"b"}, {"12.3k"}, {"", Style::kCritical}});
  EXPECT_EQ(printed(table, 80),
            "NAME             N  STATE\n"
            "重み.weight      1  ok\n"
            "b            12.3k\n");
  EXPECT_EQ(printed(table, 20),
            "NAME         N STATE\n"
            "重…ight      1 ok\n"
            "b        12.3k\n");
  EXPECT_EQ(printed(table, 0), printed(table, 80));
}

TEST(TableTest, ColorsDoNotShiftColumns) {
  Table table({{"A"}, {"B"}});
  table.add({{"x", Style::kWarning}, {"y"}});
  EXPECT_EQ(printed(table, 80, true), "\x1b[2mA\x1b[0m  \x1b[2mB\x1b[0m\n\x1b[33mx\x1b[0m  y\n");
}

}  // namespace
}  // namespace scalewatch::cli::text
