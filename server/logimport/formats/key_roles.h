// The words that names of numbers are made of, and what each adds to a name. The one table of synonyms is in key_roles.cc.
#pragma once

#include <cstdint>
#include <string_view>

namespace scalewatch::logimport {

// What a word adds to a key.
enum class Role : std::uint8_t {
  kUnknown,
  kLoss,
  kScale,   // scale
  kScaler,  // scaler
  kAmp,     // says which scale: amp, fp16
  kNorm,    //
  kGrad,    // grad, gradient
  kLr,      //
  kLearn,   // learning, learn
  kRate,    //
  kStep,    // step, iteration, update
  kEpoch,   //
  kBatch,   //
  kAcc,     //
  kTopAcc,  // top1, acc@1, prec@1
  kSkip,    //
  kNan,     //
  kEval,    //
  kTrain,   //
  kMean,    //
  kSum,     // total, overall
  kNow,     // current, this
  kGlobal,  // global
  kCount,   // number, num, of
  kOpt,     // optimizer: of a step, a rate or a scale
  kWhole,   // the usual names of a whole loss: ce, nll
  kRefuse,  // the key is of something else: loss_weight, best_loss, step_time
};

// kUnknown for a word that the table does not hold. Any case.
Role role_of(std::string_view word);

}  // namespace scalewatch::logimport
