// The tables that Ultralytics' YOLO (v5 and later) and YOLOv7 draw, a row for each batch, redrawn in place:
//       Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
//      1/100      2.36G      1.234      2.345      1.234         20        640: 100%|####| 8/8 [00:05<00:00]
// Losses are means since the epoch began; no total but YOLOv7's is printed. Columns differ, so the header is read.
#include <array>
#include <cmath>

#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/pairs.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"gpu_mem"};
constexpr std::size_t kMaxColumns = 16;
constexpr std::uint64_t kMaxOther = 6;  // lines between a header and its rows, or between rows

std::string_view next_word(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = std::min(rest.find_first_of(" \t", begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

enum class Column : std::uint8_t { kOther, kPart, kTotal };

Column column_of(std::string_view word) {
  if (word == "box" || word == "obj" || word == "cls" || word == "dfl" || word == "seg") return Column::kPart;
  if (word == "total") return Column::kTotal;
  return word.size() > 5 && word.ends_with("_loss") ? Column::kPart : Column::kOther;
}

class YoloTable final : public Format {
 public:
  std::string_view name() const override { return "yolo_table"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return count_ > 0; }

  void read(const Line& line, std::size_t /*at*/, std::size_t /*anchor*/, Readings& out) override {
    std::string_view rest = line.text.substr(line.body);
    std::array<Column, kMaxColumns> columns{};
    std::size_t count = 0;
    std::size_t losses = 0;
    bool epoch_first = false;
    for (std::string_view word = next_word(rest); !word.empty() && count < kMaxColumns; word = next_word(rest)) {
      if (count == 0) epoch_first = word == "Epoch";
      columns[count] = column_of(word);
      if (columns[count++] != Column::kOther) ++losses;
    }
    if (!epoch_first || losses == 0) return;
    columns_ = columns;
    count_ = count;
    others_ = 0;
    out.claim(0, line.text.size());
  }

  void read_next(const Line& line, Readings& out) override {
    std::string_view rest = line.text.substr(line.body);
    const std::string_view first = next_word(rest);
    const auto epoch = parse_number(first);
    const auto of = epoch && epoch->length < first.size() && first[epoch->length] == '/'
                        ? parse_number(first.substr(epoch->length + 1))
                        : std::nullopt;
    if (!of || !epoch->count() || !of->count()) {
      if (++others_ > kMaxOther) count_ = 0;
      return;
    }
    Reading row;
    std::optional<double> total, part;
    for (std::size_t column = 1; column < count_; ++column) {
      const std::string_view word = next_word(rest);
      const auto number = parse_number(word);
      if (!number) break;
      if (columns_[column] == Column::kTotal) total = number->value;
      if (columns_[column] == Column::kPart && (!part || (std::isfinite(*part) && !std::isfinite(number->value))))
        part = number->value;
    }
    if (!total && !part) return;
    others_ = 0;
    Reading& reading = out.add(Reading::Kind::kRecord, 0);
    reading.epoch = epoch->value;
    (total ? reading.loss : reading.loss_part) = total ? total : part;
    reading.loss_span = Reading::Span::kTotal;
    reading.step_counts_attempts = true;
    // The bar behind it: "100%|####| 8/8 [".
    if (const std::size_t bar = line.text.rfind('|'); bar != std::string_view::npos && bar + 1 < line.text.size()) {
      pairs_.read(line.text.substr(bar + 1));
      if (pairs_.size() > 0 && pairs_[0].of) {
        reading.batch = pairs_[0].number.count();
        reading.batches_per_epoch = pairs_[0].of->count();
      }
    }
    out.claim(0, line.text.size());
  }

 private:
  std::array<Column, kMaxColumns> columns_{};
  std::size_t count_ = 0;
  std::uint64_t others_ = 0;
  Pairs pairs_;
};

}  // namespace

std::unique_ptr<Format> make_yolo_table() {
  return std::make_unique<YoloTable>();
}

}  // namespace scalewatch::logimport
