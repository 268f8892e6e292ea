#include "server/logimport/formats/key_words.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "server/logimport/formats/key_roles.h"

namespace scalewatch::logimport {
namespace {

constexpr std::size_t kMaxWords = 10;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return is_upper(c) || is_lower(c);
}

struct KeyWords {
  struct One {
    Role role;
    std::string_view text;
    bool joined;  // to the word before by anything but a blank: loss_cls, trainLoss
  };
  std::array<One, kMaxWords> words;
  std::size_t count = 0;
  bool overflow = false;

  void add(std::string_view text, bool joined) {
    if (count == kMaxWords) {
      overflow = true;
      return;
    }
    Role role = role_of(text);
    // lr_0, optim0_lr0, loss1: a number at the end of a word does not change what the word is.
    std::string_view stem = text;
    while (role == Role::kUnknown && stem.size() > 1 && is_digit(stem.back())) stem.remove_suffix(1);
    if (stem.size() != text.size()) {
      role = role_of(stem);
      if (role == Role::kLoss) {  // loss1, loss2: parts
        words[count++] = {Role::kLoss, stem, joined};
        add(text.substr(stem.size()), true);
        return;
      }
    }
    words[count++] = {role, text, joined};
  }
};

KeyWords cut(std::string_view key) {
  KeyWords out;
  bool joined = false;
  std::size_t i = 0;
  while (i < key.size()) {
    const char c = key[i];
    if (c == '(') {  // lr(Cosine), Epoch(val): only whether it is an evaluation matters
      const std::size_t close = std::min(key.find(')', i), key.size());
      const std::string_view inner = key.substr(i + 1, close - i - 1);
      if (role_of(inner) == Role::kEval || role_of(inner) == Role::kTrain) out.add(inner, true);
      i = close;
      continue;
    }
    if (!is_letter(c) && !is_digit(c) && static_cast<unsigned char>(c) < 0x80) {
      joined = c != ' ';
      ++i;
      continue;
    }
    const std::size_t begin = i;
    if (key.substr(i).size() >= 5 && (key.compare(i + 3, 2, "@1") == 0 || key.compare(i + 4, 2, "@1") == 0)) {
      const std::string_view head = key.substr(i, key.find('@', i) - i);
      const Role role = role_of(head);
      if ((role == Role::kAcc || head.size() == 4) && out.count < kMaxWords) {  // Acc@1, Prec@1
        out.words[out.count++] = {Role::kTopAcc, head, joined};
        i += head.size() + 2;
        while (i < key.size() && is_digit(key[i])) ++i;
        continue;
      }
    }
    ++i;
    while (i < key.size()) {
      const char d = key[i];
      if (!is_letter(d) && !is_digit(d) && static_cast<unsigned char>(d) < 0x80) break;
      if (is_upper(d) && is_lower(key[i - 1])) break;                                                       // trainLoss
      if (is_lower(d) && is_upper(key[i - 1]) && i - 1 > begin && is_upper(key[i - 2]) && i > begin + 2) {  // CELoss
        --i;
        break;
      }
      ++i;
    }
    out.add(key.substr(begin, i - begin), joined);
    joined = true;  // of a word that follows at once; a blank says otherwise
  }
  return out;
}

// How often each role occurs in words [first, count).
struct Tally {
  std::array<std::uint8_t, static_cast<std::size_t>(Role::kRefuse) + 1> n{};
  std::uint8_t words = 0;
  bool has(Role r) const { return n[static_cast<std::size_t>(r)] > 0; }
  std::uint8_t of(Role r) const { return n[static_cast<std::size_t>(r)]; }
  // All words are of these roles.
  template <class... R>
  bool only(R... roles) const {
    return (of(roles) + ...) == words;
  }
};

KeyMeaning loss_meaning(const Tally& t, const KeyWords& key) {
  KeyMeaning out;
  if (t.has(Role::kScale) || t.has(Role::kScaler)) {
    if (t.only(Role::kLoss, Role::kScale, Role::kScaler, Role::kAmp, Role::kGrad, Role::kNow, Role::kOpt, Role::kTrain,
               Role::kMean)) {
      out.meaning = Meaning::kScale;
    }
    return out;
  }
  if (t.has(Role::kEval)) {
    if (!t.has(Role::kUnknown)) out.meaning = Meaning::kValidLoss;
    return out;
  }
  if (t.has(Role::kGrad) || t.has(Role::kNorm) || t.has(Role::kAcc) || t.has(Role::kLr) || t.has(Role::kSkip) ||
      t.has(Role::kCount)) {
    return out;
  }
  if (t.has(Role::kUnknown)) {
    out.meaning = Meaning::kLossPart;
    return out;
  }
  out.now = t.has(Role::kNow) || t.has(Role::kStep) || t.has(Role::kBatch);
  const bool mean = t.has(Role::kMean) || (t.has(Role::kEpoch) && !out.now);
  out.meaning = mean ? Meaning::kLossMean : Meaning::kLoss;
  if (t.has(Role::kWhole) && key.count > 1 && !mean) out.weak = true;  // ce_loss beside loss is a part of it
  return out;
}

KeyMeaning judge(const KeyWords& key, std::size_t first) {
  Tally t;
  for (std::size_t i = first; i < key.count; ++i) {
    ++t.n[static_cast<std::size_t>(key.words[i].role)];
    ++t.words;
  }
  KeyMeaning out;
  if (t.words == 0 || t.has(Role::kRefuse)) return out;
  if (t.has(Role::kLoss)) return loss_meaning(t, key);
  const bool norm_word = t.has(Role::kNorm);
  const auto is = [&](std::string_view text) {
    for (std::size_t i = first; i < key.count; ++i) {
      const std::string_view w = key.words[i].text;
      if (w.size() == text.size() &&
          std::equal(w.begin(), w.end(), text.begin(), [](char a, char b) { return lower(a) == b; })) {
        return true;
      }
    }
    return false;
  };
  if (is("lossscale")) {
    out.meaning = Meaning::kScale;
    return out;
  }
  if (is("valloss")) {
    out.meaning = Meaning::kValidLoss;
    return out;
  }
  if (t.has(Role::kScale) || t.has(Role::kScaler)) {
    if (t.only(Role::kScale, Role::kScaler, Role::kAmp, Role::kGrad, Role::kNow, Role::kOpt, Role::kTrain)) {
      out.meaning = Meaning::kScale;
      out.weak = t.only(Role::kScale, Role::kNow, Role::kTrain);
    }
    return out;
  }
  if (norm_word || is("gnorm") || is("gradnorm")) {
    const bool known = t.has(Role::kGrad) || t.has(Role::kGlobal) || t.has(Role::kSum);
    if (t.only(Role::kNorm, Role::kGrad, Role::kGlobal, Role::kSum, Role::kTrain, Role::kNow, Role::kOpt, Role::kStep) &&
        (known || t.words == 1)) {
      out.meaning = Meaning::kGradNorm;
      out.weak = !t.has(Role::kGrad);
    }
    return out;
  }
  if (t.has(Role::kLr) || (t.has(Role::kLearn) && t.has(Role::kRate))) {
    if (!t.has(Role::kEval)) out.meaning = Meaning::kLr;
    return out;
  }
  if (t.has(Role::kSkip) || t.has(Role::kNan)) {
    if (t.only(Role::kSkip, Role::kStep, Role::kCount, Role::kSum, Role::kNan, Role::kOpt, Role::kBatch, Role::kAmp,
               Role::kTrain) &&
        (t.words > 1 || is("skipped"))) {
      out.meaning = t.has(Role::kNan) ? Meaning::kNanSkipped : Meaning::kSkipped;
      out.total = t.has(Role::kSum);
    }
    return out;
  }
  if (t.has(Role::kTopAcc) || t.has(Role::kAcc)) {
    if (t.has(Role::kEval)) {
      out.meaning = Meaning::kEvaluation;
    } else if (t.only(Role::kTopAcc, Role::kAcc, Role::kTrain, Role::kMean, Role::kNow, Role::kBatch, Role::kEpoch,
                      Role::kSum)) {
      out.meaning = Meaning::kAccuracy;
    }
    return out;
  }
  const bool eval = t.has(Role::kEval);
  if (t.has(Role::kStep)) {
    if (t.only(Role::kStep, Role::kGlobal, Role::kCount, Role::kTrain, Role::kNow, Role::kOpt, Role::kEval, Role::kSum,
               Role::kBatch, Role::kEpoch)) {
      // "total steps" is a constant; "total iteration" and "global step" count.
      if (t.has(Role::kSum) && is("steps")) return out;
      if (t.has(Role::kEpoch) && !t.has(Role::kGlobal)) return out;  // steps of an epoch: a constant
      out.meaning =
          t.has(Role::kGlobal) || t.has(Role::kSum) || is("update") || is("updates") ? Meaning::kGlobalStep : Meaning::kStep;
      if (t.has(Role::kBatch) && out.meaning == Meaning::kStep) out.meaning = Meaning::kBatch;
      out.evaluation = eval;
      out.plural = is("steps");
      out.weak = is("it") && t.words == 1;
    }
    return out;
  }
  if (t.has(Role::kEpoch)) {
    if (t.only(Role::kEpoch, Role::kTrain, Role::kNow, Role::kEval, Role::kCount)) {
      out.meaning = Meaning::kEpoch;
      out.evaluation = eval;
      out.plural = is("epochs");
    }
    return out;
  }
  if (t.has(Role::kBatch)) {
    if (t.only(Role::kBatch, Role::kTrain, Role::kNow, Role::kEval)) {
      out.meaning = Meaning::kBatch;
      out.evaluation = eval;
    }
    return out;
  }
  if (t.words == 1 && t.has(Role::kTrain)) out.meaning = Meaning::kTrain;
  if (t.words == 1 && eval) out.meaning = Meaning::kEvaluation;
  if (t.words == 1 && t.has(Role::kMean)) out.meaning = Meaning::kMeanOfLast;
  return out;
}

bool is_level(std::string_view word) {
  static constexpr std::string_view kLevels[] = {"INFO", "WARN", "WARNING", "DEBUG", "ERROR", "NOTICE", "TRACE", "PROGRESS"};
  return std::find(std::begin(kLevels), std::end(kLevels), word) != std::end(kLevels);
}

bool is_position(Meaning m) {
  return m == Meaning::kStep || m == Meaning::kGlobalStep || m == Meaning::kEpoch || m == Meaning::kBatch;
}

}  // namespace

KeyMeaning meaning_of(std::string_view key, bool exact) {
  const KeyWords words = cut(key);
  if (words.count == 0 || words.overflow) return {};
  if (exact) {
    const KeyMeaning whole = judge(words, 0);
    if (whole.meaning != Meaning::kNone) return whole;
    // "INFO step: 3", "trainer step=3": unknown words before a position are no part of it; before others only a level is none.
    std::size_t first = 0;
    bool levels = true;
    while (first + 1 < words.count && words.words[first].role == Role::kUnknown && !words.words[first + 1].joined) {
      levels = levels && is_level(words.words[first].text);
      ++first;
    }
    if (first == 0) return whole;
    const KeyMeaning rest = judge(words, first);
    return levels || is_position(rest.meaning) ? rest : whole;
  }
  // Longest end first, and only at the begin of a word that a blank precedes: "samples/sec loss" is "loss", not "sec loss".
  for (std::size_t first = 0; first < words.count; ++first) {
    if (first > 0 && words.words[first].joined) continue;
    const KeyMeaning found = judge(words, first);
    if (found.meaning == Meaning::kLossPart && first + 1 < words.count) {
      // An unknown word before "loss" may be no part of the key at all.
      bool own = true;
      for (std::size_t i = first + 1; i < words.count; ++i) own = own && words.words[i].joined;
      if (!own) continue;
    }
    if (found.meaning != Meaning::kNone) return found;
  }
  return {};
}

PhaseWord phase_word(std::string_view word) {
  const Role role = role_of(word);
  return role == Role::kEval ? PhaseWord::kEvaluation : role == Role::kTrain ? PhaseWord::kTraining : PhaseWord::kNeither;
}

}  // namespace scalewatch::logimport
