// The dictionaries of Hugging Face's Trainer and all that build on it (ms-swift, LLaMA-Factory, TRL), in Python's spelling or
// in JSON:
// {'loss': 1.45, 'grad_norm': nan, 'learning_rate': 4.5e-06, 'epoch': 0.66}. The loss is the mean since the record before;
// non-finite ones are left out of it by default. The norm is of the last step, and NaN where a healthy scaler skipped that
// step.
#include "server/logimport/formats/formats.h"
#include "server/logimport/formats/record.h"

namespace scalewatch::logimport {
namespace {

constexpr std::string_view kAnchors[] = {"'loss':", "\"loss\":", "'eval_loss':", "\"eval_loss\":", "'train_runtime':"};
constexpr KeyRule kKeys[] = {{"global_step/max_steps", Meaning::kGlobalStep}, {"current_steps", Meaning::kGlobalStep}};

bool of_trainer(const Pairs& pairs, Reading& reading) {
  if (pairs.find("train_runtime") != nullptr) {  // the last line of a training; its loss is the mean of all
    const std::string_view format = reading.format;
    Reading end;
    end.kind = Reading::Kind::kEnd;
    end.line = reading.line;
    end.format = format;
    end.time_ms = reading.time_ms;
    end.rank = reading.rank;
    end.epoch = reading.epoch;
    reading = end;
    return true;
  }
  if (pairs.find("num_updates") != nullptr) return false;  // fairseq's
  if (pairs.find("eval_loss") != nullptr) return pairs.find("eval_runtime") != nullptr || reading.epoch || reading.step;
  return pairs.find("loss") != nullptr && pairs.find("epoch") != nullptr &&
         (pairs.find("learning_rate") != nullptr || pairs.find("grad_norm") != nullptr || pairs.find("lr") != nullptr);
}

constexpr RecordSpec kSpec = {.name = "hf_trainer",
                              .anchors = kAnchors,
                              .rules = {.keys = kKeys,
                                        .loss_span = Reading::Span::kInterval,
                                        .grad_norm_span = Reading::Span::kStep,
                                        .counts_attempts = true},
                              .region = RecordSpec::Region::kBraces,
                              .finish = of_trainer};

}  // namespace

std::unique_ptr<Format> make_hf_trainer() {
  return make_record_format(kSpec);
}

}  // namespace scalewatch::logimport
