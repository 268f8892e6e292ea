// The numbers of a Reading by name, so that templates and tables of keys can say which one they fill.
#pragma once

#include <optional>
#include <string_view>

#include "server/logimport/number.h"
#include "server/logimport/reading.h"

namespace scalewatch::logimport {

using SetField = bool (*)(Reading& reading, const Number& number);

// "step", "steps_total", "epoch", "batch", "batches_per_epoch", "attempts_per_record", "rank", "other_rank", "scaler",
// "scale_before", "scale_after", "scale", "hysteresis_before", "hysteresis_after", "skipped", "nan_skipped", "clean_steps",
// "loss", "loss_now", "loss_part", "valid_loss", "grad_norm", "lr", "accuracy", "abs_min", "abs_max". With "~" after it a
// scale's quantum is taken over: the number is rounded in print. "_" takes no number anywhere. Null for another name. The
// function returned fills the field; false when the number can't be one (a fractional step).
SetField field_named(std::string_view name);

}  // namespace scalewatch::logimport
