// What a printed key means: "Grad Norm", "train/loss_step", "num_updates", "lr(LinearWarmup)". Keys are cut into words and each
// word has one role (key_words.cc holds the table), so that a name nobody has thought of still says what it is, and a name with
// a word in it that changes the meaning (loss_weight, best_loss, logit_scale) says nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace scalewatch::logimport {

enum class Meaning : std::uint8_t {
  kNone,        // nothing known
  kLoss,        // the loss of training
  kLossMean,    // a mean of it: since the epoch or the run began
  kLossPart,    // a part of it
  kValidLoss,   // of an evaluation
  kScale,       // the scaler's scale
  kGradNorm,    //
  kLr,          //
  kStep,        // step, iteration or update
  kGlobalStep,  // the same, and surely not within an epoch
  kEpoch,       //
  kBatch,       // within the epoch
  kAccuracy,    // of training
  kSkipped,     // a count of skipped steps
  kNanSkipped,  // a count of steps with NaN
  kTrain,       // only says that training is meant: "Train: [3/300]"
  kEvaluation,  // a key that belongs to an evaluation: val_acc
  kMeanOfLast,  // "avg", "mean": of the number just before
};

struct KeyMeaning {
  Meaning meaning = Meaning::kNone;
  bool weak = false;        // needs company: "scale", "norm", "it" alone may mean anything
  bool now = false;         // says that it is of this very step: loss_step
  bool evaluation = false;  // a position (epoch, step) of an evaluation: "val epoch 3"
  bool total = false;       // a counter since the run began
  bool plural = false;      // "epochs", "steps": without a total behind it a setting, not a position
};

// `exact`: the key ends in ':' or '=', so that all its words count. Otherwise words may precede it that are no part of it
// ("samples/sec loss"), and the longest end of it that means something is taken.
KeyMeaning meaning_of(std::string_view key, bool exact);

// What the word alone says that is meant: an evaluation (val, valid, test, dev, ...) or training. Any case.
enum class PhaseWord : std::uint8_t { kNeither, kEvaluation, kTraining };
PhaseWord phase_word(std::string_view word);
inline bool is_evaluation_word(std::string_view word) {
  return phase_word(word) == PhaseWord::kEvaluation;
}

}  // namespace scalewatch::logimport
