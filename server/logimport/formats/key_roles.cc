#include "server/logimport/formats/key_roles.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace scalewatch::logimport {
namespace {

struct Word {
  std::string_view text;
  Role role;
};

// Sorted by text. The one table of synonyms.
constexpr auto kWords = std::to_array<Word>({
    {"acc", Role::kAcc},
    {"acc1", Role::kTopAcc},
    {"accum", Role::kRefuse},
    {"accumulation", Role::kRefuse},
    {"accuracy", Role::kAcc},
    {"all", Role::kSum},
    {"amp", Role::kAmp},
    {"average", Role::kMean},
    {"averaged", Role::kMean},
    {"avg", Role::kMean},
    {"base", Role::kOpt},
    {"batch", Role::kBatch},
    {"batches", Role::kBatch},
    {"bce", Role::kWhole},
    {"best", Role::kRefuse},
    {"bpt", Role::kWhole},
    {"ce", Role::kWhole},
    {"change", Role::kRefuse},
    {"clip", Role::kRefuse},
    {"clipped", Role::kRefuse},
    {"clipping", Role::kRefuse},
    {"coef", Role::kRefuse},
    {"coeff", Role::kRefuse},
    {"count", Role::kCount},
    {"cross", Role::kWhole},
    {"crossentropy", Role::kWhole},
    {"cur", Role::kNow},
    {"curr", Role::kNow},
    {"current", Role::kNow},
    {"cv", Role::kEval},
    {"decay", Role::kRefuse},
    {"delta", Role::kRefuse},
    {"dev", Role::kEval},
    {"diff", Role::kRefuse},
    {"dynamic", Role::kAmp},
    {"ema", Role::kMean},
    {"entropy", Role::kWhole},
    {"ep", Role::kEpoch},
    {"epoch", Role::kEpoch},
    {"epochs", Role::kEpoch},
    {"eval", Role::kEval},
    {"evaluate", Role::kEval},
    {"evaluating", Role::kEval},
    {"evaluation", Role::kEval},
    {"every", Role::kRefuse},
    {"factor", Role::kRefuse},
    {"final", Role::kRefuse},
    {"fit", Role::kTrain},
    {"fn", Role::kRefuse},
    {"fp16", Role::kAmp},
    {"freq", Role::kRefuse},
    {"frequency", Role::kRefuse},
    {"function", Role::kRefuse},
    {"get", Role::kNow},
    {"global", Role::kGlobal},
    {"gnorm", Role::kGrad},
    {"grad", Role::kGrad},
    {"gradient", Role::kGrad},
    {"gradients", Role::kGrad},
    {"gradnorm", Role::kGrad},
    {"grads", Role::kGrad},
    {"init", Role::kRefuse},
    {"initial", Role::kRefuse},
    {"interval", Role::kRefuse},
    {"it", Role::kStep},
    {"iter", Role::kStep},
    {"iteration", Role::kStep},
    {"iterations", Role::kStep},
    {"iters", Role::kStep},
    {"itr", Role::kStep},
    {"lambda", Role::kRefuse},
    {"last", Role::kNow},
    {"learn", Role::kLearn},
    {"learning", Role::kLearn},
    {"learningrate", Role::kLr},
    {"limit", Role::kRefuse},
    {"lm", Role::kWhole},
    {"log", Role::kRefuse},
    {"loss", Role::kLoss},
    {"losses", Role::kLoss},
    {"lossscale", Role::kAmp},
    {"lowest", Role::kRefuse},
    {"lr", Role::kLr},
    {"lrate", Role::kLr},
    {"lrs", Role::kLr},
    {"max", Role::kRefuse},
    {"maximum", Role::kRefuse},
    {"mean", Role::kMean},
    {"min", Role::kRefuse},
    {"minibatch", Role::kBatch},
    {"minimum", Role::kRefuse},
    {"mlm", Role::kWhole},
    {"mse", Role::kWhole},
    {"nan", Role::kNan},
    {"nb", Role::kCount},
    {"new", Role::kNow},
    {"nll", Role::kWhole},
    {"norm", Role::kNorm},
    {"now", Role::kNow},
    {"num", Role::kCount},
    {"number", Role::kCount},
    {"of", Role::kCount},
    {"opt", Role::kOpt},
    {"optim", Role::kOpt},
    {"optimizer", Role::kOpt},
    {"overall", Role::kSum},
    {"overflow", Role::kSkip},
    {"overflows", Role::kSkip},
    {"patience", Role::kRefuse},
    {"per", Role::kRefuse},
    {"prec1", Role::kTopAcc},
    {"prev", Role::kRefuse},
    {"previous", Role::kRefuse},
    {"rate", Role::kRate},
    {"ratio", Role::kRefuse},
    {"reduced", Role::kSum},
    {"running", Role::kMean},
    {"save", Role::kRefuse},
    {"scale", Role::kScale},
    {"scaler", Role::kScaler},
    {"scaling", Role::kScale},
    {"schedule", Role::kRefuse},
    {"scheduler", Role::kRefuse},
    {"sec", Role::kRefuse},
    {"size", Role::kRefuse},
    {"skip", Role::kSkip},
    {"skipped", Role::kSkip},
    {"skips", Role::kSkip},
    {"smooth", Role::kMean},
    {"smoothed", Role::kMean},
    {"smoothing", Role::kRefuse},
    {"start", Role::kRefuse},
    {"std", Role::kRefuse},
    {"step", Role::kStep},
    {"steps", Role::kStep},
    {"sum", Role::kSum},
    {"target", Role::kRefuse},
    {"test", Role::kEval},
    {"testing", Role::kEval},
    {"threshold", Role::kRefuse},
    {"time", Role::kRefuse},
    {"times", Role::kRefuse},
    {"top1", Role::kTopAcc},
    {"tot", Role::kMean},
    {"total", Role::kSum},
    {"tr", Role::kTrain},
    {"train", Role::kTrain},
    {"trainer", Role::kOpt},
    {"training", Role::kTrain},
    {"trainloss", Role::kLoss},
    {"trn", Role::kTrain},
    {"type", Role::kRefuse},
    {"unclipped", Role::kGrad},
    {"until", Role::kRefuse},
    {"update", Role::kStep},
    {"updates", Role::kStep},
    {"val", Role::kEval},
    {"valid", Role::kEval},
    {"validate", Role::kEval},
    {"validating", Role::kEval},
    {"validation", Role::kEval},
    {"valloss", Role::kEval},
    {"vals", Role::kEval},
    {"warmup", Role::kRefuse},
    {"weight", Role::kRefuse},
    {"weights", Role::kRefuse},
    {"window", Role::kRefuse},
    {"xent", Role::kWhole},
    {"zero", Role::kRefuse},
});
static_assert(std::is_sorted(kWords.begin(), kWords.end(), [](const Word& a, const Word& b) { return a.text < b.text; }));

constexpr std::size_t kMaxWordBytes = 16;

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// The first bytes of a word, in lower case.
constexpr std::size_t kHeadBytes = 8;
constexpr std::uint64_t head_of(std::string_view word) {
  std::uint64_t head = 0;
  for (std::size_t i = std::min(word.size(), kHeadBytes); i > 0; --i) {
    head = head << 8 | static_cast<unsigned char>(lower(word[i - 1]));
  }
  return head;
}
constexpr auto kHeads = [] {
  std::array<std::uint64_t, kWords.size()> heads{};
  for (std::size_t i = 0; i < kWords.size(); ++i) heads[i] = head_of(kWords[i].text);
  return heads;
}();

// Where the words of each first letter begin.
constexpr auto kFirst = [] {
  std::array<std::uint16_t, 27> first{};
  std::size_t at = 0;
  for (std::size_t letter = 0; letter < 26; ++letter) {
    while (at < kWords.size() && kWords[at].text[0] < static_cast<char>('a' + letter)) ++at;
    first[letter] = static_cast<std::uint16_t>(at);
  }
  first[26] = static_cast<std::uint16_t>(kWords.size());
  return first;
}();

}  // namespace

Role role_of(std::string_view word) {
  if (word.size() < 2 || word.size() > kMaxWordBytes) return Role::kUnknown;
  const char first = lower(word[0]);
  if (first < 'a' || first > 'z') return Role::kUnknown;
  const auto letter = static_cast<std::size_t>(first - 'a');
  const std::uint64_t head = head_of(word);
  for (std::size_t i = kFirst[letter]; i < kFirst[letter + 1]; ++i) {
    const std::string_view text = kWords[i].text;
    if (kHeads[i] != head || text.size() != word.size()) continue;
    std::size_t same = std::min(word.size(), kHeadBytes);
    while (same < word.size() && lower(word[same]) == text[same]) ++same;
    if (same == word.size()) return kWords[i].role;
  }
  return Role::kUnknown;
}

}  // namespace scalewatch::logimport
