#include "server/logimport/reader.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "server/logimport/source.h"
#include "tests/unit/logimport/read_text.h"

namespace scalewatch::logimport {
namespace {

namespace fs = std::filesystem;

std::string skip(double scale) {
  return "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to " + std::to_string(scale) + "\n";
}

class ReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "scalewatch_logs_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, std::string_view text) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  fs::path folder_;
};

std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST_F(ReaderTest, FilesCompressedFilesAndDamagedOnes) {
  const std::string whole = gzip(skip(4)) + gzip(skip(2));
  std::string noise;
  for (int i = 0; i < 20000; ++i) noise += std::to_string(i * 7919) + " ";
  const std::string paths[] = {file("a.log", skip(8)), file("b.log", whole),
                               file("c.gz", gzip(skip(1) + noise).substr(0, 20000))};
  KeepReadings sink;
  LogReader reader(sink);
  std::uint64_t last_done = 0;
  SourceOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last_done);
    EXPECT_LE(done, total);
    last_done = done;
  };
  const SourceReport report = read_logs({paths[0], paths[1], paths[2]}, options, reader);
  ASSERT_EQ(sink.all.size(), 4U);
  EXPECT_EQ(sink.all[1].file, 1U);
  EXPECT_EQ(sink.all[2].line, 2U);
  EXPECT_EQ(sink.all[3].scale_after, 1);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_THAT(report.notes[0], testing::HasSubstr("c.gz"));
  EXPECT_EQ(last_done, fs::file_size(paths[0]) + fs::file_size(paths[1]) + fs::file_size(paths[2]));
}

TEST_F(ReaderTest, SaysWhatItCantOpen) {
  KeepReadings sink;
  LogReader reader(sink);
  EXPECT_THROW(read_logs({(folder_ / "missing.log").string()}, {}, reader), SourceError);
  EXPECT_THROW(read_logs({folder_.string()}, {}, reader), SourceError);
  EXPECT_THROW(LogReader(sink, "no_such_format"), std::invalid_argument);
}

TEST_F(ReaderTest, FollowsThroughTruncationAndRotation) {
  const std::string path = file("train.log", skip(16));
  KeepReadings sink;
  LogReader reader(sink);
  std::atomic<bool> stop{false};
  SourceOptions options;
  options.follow = true;
  options.stop = &stop;
  options.poll = std::chrono::milliseconds(1);
  int stage = 0;
  std::string half;
  // Each time all is read, the next thing happens to the file.
  options.idle = [&] {
    if (stage == 0 && sink.all.size() == 1) {
      half = skip(8);
      std::ofstream(path, std::ios::app) << half.substr(0, 30);  // half a line is not read yet
      stage = 1;
    } else if (stage == 1) {
      EXPECT_EQ(sink.all.size(), 1U);
      std::ofstream(path, std::ios::app) << half.substr(30);
      stage = 2;
    } else if (stage == 2 && sink.all.size() == 2) {
      std::ofstream(path, std::ios::trunc) << skip(4);  // shorter than before: truncated
      stage = 3;
    } else if (stage == 3 && sink.all.size() == 3) {
      fs::rename(path, path + ".1");
      std::ofstream(path) << skip(2);
      stage = 4;
    } else if (stage == 4 && sink.all.size() == 4) {
      stop = true;
    }
  };
  read_logs({path}, options, reader);
  ASSERT_EQ(sink.all.size(), 4U);
  EXPECT_EQ(sink.all[1].scale_after, 8);
  EXPECT_EQ(sink.all[1].line, 2U);
  EXPECT_EQ(sink.all[2].line, 1U);
  EXPECT_EQ(sink.all[3].scale_after, 2);
}

TEST_F(ReaderTest, ReadsUtf16AndByteOrderMarks) {
  const std::string text = skip(8) + skip(4);
  std::string wide = "\xff\xfe";
  for (const char c : text) wide += {c, '\0'};
  EXPECT_EQ(read_text(wide, {}, 3).size(), 2U);
  EXPECT_EQ(read_text("\xef\xbb\xbf" + text).size(), 2U);
}

TEST_F(ReaderTest, TheSameReadingsHoweverTheBytesAreCut) {
  std::size_t compared = 0;
  for (const auto& entry : fs::directory_iterator(SCALEWATCH_TEST_DATA "/logs")) {
    if (entry.path().extension() != ".log") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto whole = read_text(text);
    const auto bytewise = read_text(text, {}, 1);
    EXPECT_FALSE(whole.empty()) << entry.path();
    ASSERT_EQ(whole.size(), bytewise.size()) << entry.path();
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(whole[i].kind, bytewise[i].kind);
      EXPECT_EQ(whole[i].line, bytewise[i].line);
      EXPECT_EQ(whole[i].step, bytewise[i].step);
    }
    ++compared;
  }
  EXPECT_GE(compared, 36U);
}

TEST_F(ReaderTest, FilesThatAreNoTrainingLogsGiveNothing) {
  for (const std::string_view text : {
           "10.0.0.1 - - [28/Apr/2023:06:51:29 +0000] \"GET /loss?step=3 HTTP/1.1\" 200 2326\n10.0.0.2 - - \"GET /epoch "
           "HTTP/1.1\" 404 12\n",
           "[    0.000000] Linux version 6.1.0 (gcc 12)\n[    1.234567] tcp: loss rate 0, scale 7\n[   12.5] clocksource: tsc, "
           "step 100\n",
           "#include <vector>\nint main() {\n  double loss = 0.5;\n  int step = 3;\n  for (int epoch = 0; epoch < 10; ++epoch) "
           "run(loss);\n}\n",
           "import torch\nloss = 0.0\nscaler = torch.cuda.amp.GradScaler(init_scale=65536.0)\nfor step in range(10):\n    "
           "print(loss)\n",
           "# Trainer\n\nSet `lr` to 0.1 and look at the loss. The step is 3.\n\n| option | default |\n| --- | --- |\n| scale "
           "| 65536 |\n",
           "name,age,city\nann,31,Rome\nbob,28,Oslo\n",
           "10 packets transmitted, 10 received, 0% packet loss, time 9012ms\nrtt min/avg/max/mdev = 0.1/0.2/0.3/0.04 ms\n",
           " 45%|####5     | 12/27 [00:10<00:12,  1.20it/s]\n100%|##########| 27/27 [00:22<00:00,  1.20it/s]\n",
           "{\"a\": 1, \"b\": [1, 2, 3]}\n",
           "",
           "\n\n\n",
       }) {
    EXPECT_TRUE(read_text(text).empty()) << text << read_text(text)[0].format;
  }
}

TEST_F(ReaderTest, TheFormatIsTheOneThatMostReadingsCameFrom) {
  KeepReadings sink;
  LogReader reader(sink);
  reader.begin_file(0);
  reader.feed(skip(8) + skip(4) + "OVERFLOW! Skipping step. Attempted loss scale: 8.0\n");
  reader.end_file();
  EXPECT_EQ(reader.summary().format, "apex");
  EXPECT_EQ(reader.summary().readings, 3U);
  EXPECT_TRUE(read_text(skip(8), "paddle").empty());
  EXPECT_EQ(read_text(skip(8), "apex").size(), 1U);
  // A trainer's format does not hide what its scaler says.
  EXPECT_EQ(
      read_text("{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 1.0}\nstep 3 loss 0.5 lr 0.1\n" + skip(8), "hf_trainer").size(),
      2U);
}

}  // namespace
}  // namespace scalewatch::logimport
