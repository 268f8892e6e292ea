#include "server/logimport/fields.h"

#include <limits>

namespace scalewatch::logimport {
namespace {

template <auto Member>
bool set_real(Reading& reading, const Number& number) {
  reading.*Member = number.value;
  return true;
}

template <auto Member>
bool set_scale(Reading& reading, const Number& number) {
  reading.*Member = number.value;
  reading.scale_quantum = number.quantum;
  return true;
}

template <auto Member>
bool set_count(Reading& reading, const Number& number) {
  using Value = typename std::remove_reference_t<decltype(reading.*Member)>::value_type;
  const auto count = number.count();
  if (!count || static_cast<double>(*count) > static_cast<double>(std::numeric_limits<Value>::max())) return false;
  reading.*Member = static_cast<Value>(*count);
  return true;
}

bool set_nothing(Reading& /*reading*/, const Number& /*number*/) {
  return true;
}

struct Entry {
  std::string_view name;
  SetField set;
};

constexpr Entry kFields[] = {
    {"_", set_nothing},
    {"step", set_count<&Reading::step>},
    {"steps_total", set_count<&Reading::steps_total>},
    {"epoch", set_real<&Reading::epoch>},
    {"batch", set_count<&Reading::batch>},
    {"batches_per_epoch", set_count<&Reading::batches_per_epoch>},
    {"attempts_per_record", set_count<&Reading::attempts_per_record>},
    {"rank", set_count<&Reading::rank>},
    {"other_rank", set_count<&Reading::other_rank>},
    {"scaler", set_count<&Reading::scaler>},
    {"scale_before", set_real<&Reading::scale_before>},
    {"scale_before~", set_scale<&Reading::scale_before>},
    {"scale_after", set_real<&Reading::scale_after>},
    {"scale_after~", set_scale<&Reading::scale_after>},
    {"scale", set_real<&Reading::scale>},
    {"scale~", set_scale<&Reading::scale>},
    {"hysteresis_before", set_count<&Reading::hysteresis_before>},
    {"hysteresis_after", set_count<&Reading::hysteresis_after>},
    {"skipped", set_count<&Reading::skipped>},
    {"nan_skipped", set_count<&Reading::nan_skipped>},
    {"clean_steps", set_count<&Reading::clean_steps>},
    {"loss", set_real<&Reading::loss>},
    {"loss_now", set_real<&Reading::loss_now>},
    {"loss_part", set_real<&Reading::loss_part>},
    {"valid_loss", set_real<&Reading::valid_loss>},
    {"grad_norm", set_real<&Reading::grad_norm>},
    {"norm_limit", set_real<&Reading::norm_limit>},
    {"share", set_real<&Reading::share>},
    {"lr", set_real<&Reading::lr>},
    {"accuracy", set_real<&Reading::accuracy>},
    {"abs_min", set_real<&Reading::abs_min>},
    {"abs_max", set_real<&Reading::abs_max>},
};

}  // namespace

SetField field_named(std::string_view name) {
  for (const Entry& entry : kFields) {
    if (entry.name == name) return entry.set;
  }
  return nullptr;
}

}  // namespace scalewatch::logimport
