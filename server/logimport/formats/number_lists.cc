// VITS and its relatives: a line that says where the trainer is, then one of nothing but numbers in brackets.
//   Train Epoch: 42 [39%]
//   [2.5, 1.5, 2.25, 20.5, 2400, 0.0002]
// The last two are the step and the learning rate, those before are losses.
#include <vector>

#include "server/logimport/formats/formats.h"
#include "server/logimport/number.h"
#include "server/logimport/template.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"Train Epoch: "};
constexpr std::size_t kMaxNumbers = 32;

// "[1.5, 2, 3e-4]" up to the end of the text; empty where it is anything else.
std::vector<Number> list_of(std::string_view text) {
  std::vector<Number> numbers;
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return numbers;
  text = text.substr(1, text.size() - 2);
  while (numbers.size() < kMaxNumbers) {
    const auto number = parse_number(text);
    if (!number) return {};
    numbers.push_back(*number);
    text.remove_prefix(number->length);
    if (text.empty()) return numbers;
    if (!text.starts_with(", ")) return {};
    text.remove_prefix(2);
  }
  return {};
}

class NumberLists final : public Format {
 public:
  std::string_view name() const override { return "number_lists"; }
  std::span<const std::string_view> anchors() const override { return kAnchors; }
  bool open() const override { return open_; }

  void read(const Line& line, std::size_t at, std::size_t /*anchor*/, Readings& /*out*/) override {
    Template::Match match;
    open_ = head_.match(line.text, at, match) && match.end() == line.text.size();
  }

  void read_next(const Line& line, Readings& out) override {
    open_ = false;
    const std::size_t begin = line.text.find('[', line.body);
    if (begin == std::string_view::npos) return;
    const std::vector<Number> numbers = list_of(line.text.substr(begin));
    constexpr std::size_t kLeast = 4;  // two losses, step, learning rate
    if (numbers.size() < kLeast) return;
    const auto step = numbers[numbers.size() - 2].count();
    const double lr = numbers.back().value;
    if (!step || !numbers[numbers.size() - 2].integer || !(lr >= 0 && lr < 1)) return;
    Reading& reading = out.add(Reading::Kind::kRecord, begin);
    reading.step = step;
    reading.lr = lr;
    double sum = 0;
    for (std::size_t i = 0; i + 2 < numbers.size(); ++i) sum += numbers[i].value;
    reading.loss = sum;
    reading.loss_span = Reading::Span::kStep;
    out.claim(begin, line.text.size());
  }

 private:
  Template head_{"Train Epoch: {_} [{_}%]"};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<Format> make_number_lists() {
  return std::make_unique<NumberLists>();
}

}  // namespace scalewatch::logimport
