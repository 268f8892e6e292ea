// What frameworks and their watchers say about values that are not finite.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

constexpr LineRule found(std::string_view text, std::string_view where, std::string_view non_finite) {
  return {.text = text, .kind = Kind::kNonFinite, .place = Place::kSpoken, .where = where, .non_finite = non_finite};
}

constexpr LineRule kRules[] = {
    // TensorBoard's writer, about a number that it was given
    found("NaN or Inf found in input tensor.", "", "both"),
    // PyTorch's anomaly mode, and clipping that was asked to refuse
    found("Function '{tensor}' returned nan values in its", "backward", "nan"),
    found("The total norm of order {_} for gradients from `parameters` is non-finite", "backward", "both"),
    // Lightning
    found("The loss returned in `training_step` is nan", "loss", "nan"),
    found("The loss returned in `training_step` is inf", "loss", "inf"),
    found("Detected nan and/or inf values in `{tensor}`", "weights", "both"),
    // Detectron2, Keras, torchvision's references and their relatives
    found("Loss became infinite or NaN at iteration={step}!", "loss", "both"),
    found("Batch {batch}: Invalid loss, terminating training", "loss", "both"),
    found("Loss is nan, stopping training", "loss", "nan"),
    found("Loss is inf, stopping training", "loss", "inf"),
    found("non-finite loss, ending training", "loss", "both"),
    found("Model diverged with loss = NaN", "loss", "nan"),
    found("NaN loss encountered", "loss", "nan"),
    found("NaN loss detected", "loss", "nan"),
    found("invalid value (nan) encountered in {tensor}", "forward", "nan"),
    found("invalid value (inf) encountered in {tensor}", "forward", "inf"),
    // Megatron's checks; the first two also say where in the middle of another sentence
    {.text = "found NaN in local grad norm",
     .kind = Kind::kNonFinite,
     .place = Place::kUnquoted,
     .where = "backward",
     .non_finite = "nan"},
    {.text = "found Inf in local grad norm",
     .kind = Kind::kNonFinite,
     .place = Place::kUnquoted,
     .where = "backward",
     .non_finite = "inf"},
    {.text = "found NaN in local forward loss calculation",
     .kind = Kind::kNonFinite,
     .place = Place::kUnquoted,
     .where = "loss",
     .non_finite = "nan"},
    {.text = "found Inf in local forward loss calculation",
     .kind = Kind::kNonFinite,
     .place = Place::kUnquoted,
     .where = "loss",
     .non_finite = "inf"},
};

}  // namespace

std::unique_ptr<Format> make_detectors() {
  return std::make_unique<TemplateFormat>("detectors", kRules);
}

}  // namespace scalewatch::logimport
