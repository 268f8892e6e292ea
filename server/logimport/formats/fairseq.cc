// fairseq's scaler and its detector of NaN. Its progress lines: fairseq_records.cc.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

constexpr LineRule kRules[] = {
    {.text = "overflow detected, setting loss scale to: {scale_after}", .kind = Kind::kSkip, .policy = "fairseq"},
    {.text = "overflow detected, ignoring gradient, setting loss scale to: {scale_after}",
     .kind = Kind::kSkip,
     .policy = "fairseq"},
    {.text = "AMP: overflow detected, setting scale to to {scale_after}", .kind = Kind::kSkip, .policy = "pytorch"},
    {.text = "Minimum loss scale reached ({scale})", .kind = Kind::kFatal, .policy = "fairseq", .place = Place::kUnquoted},
    {.text = "NaN detected in output of {tensor}, shape: {...}), forward",
     .kind = Kind::kNonFinite,
     .where = "forward",
     .non_finite = "nan"},
    {.text = "Inf detected in output of {tensor}, shape: {...}), forward",
     .kind = Kind::kNonFinite,
     .where = "forward",
     .non_finite = "inf"},
    {.text = "NaN detected in output of {tensor}, shape: {...}), backward",
     .kind = Kind::kNonFinite,
     .where = "backward",
     .non_finite = "nan"},
    {.text = "Inf detected in output of {tensor}, shape: {...}), backward",
     .kind = Kind::kNonFinite,
     .where = "backward",
     .non_finite = "inf"},
    {.text = "Detected nan/inf grad norm, dumping norms",
     .kind = Kind::kNonFinite,
     .place = Place::kSpoken,
     .where = "backward",
     .non_finite = "both"},
    {.text = "Loaded checkpoint {...} (epoch {epoch} @ {step} updates)", .kind = Kind::kCheckpoint},
};

}  // namespace

std::unique_ptr<Format> make_fairseq() {
  return std::make_unique<TemplateFormat>("fairseq", kRules);
}

}  // namespace scalewatch::logimport
