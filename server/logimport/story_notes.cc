#include "server/logimport/story_notes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "server/domain/blame_note.h"

namespace scalewatch::logimport {
namespace {

constexpr double kLargestFp16 = 65504;

Role role_of(const Reading& reading) {
  if (reading.where == "weights") return Role::kParameter;
  if (reading.where == "gradient") return Role::kGradient;
  return reading.where == "backward" ? Role::kActivationGradient : Role::kActivation;
}

}  // namespace

void Notes::add(const Reading& reading) {
  // A value somewhere: a plotted norm is Inf at every healthy skip.
  if (reading.kind == Reading::Kind::kNonFinite && reading.tensor.empty() && reading.where.empty()) return;
  if (empty()) line_ = reading.line;
  if (reading.kind == Reading::Kind::kMisuse) {
    if (misuse_.size() < 8) misuse_.push_back({std::string(reading.misuse_kind), reading.detail, true});
    return;
  }
  if (reading.kind == Reading::Kind::kRanksDiffer) {
    domain::RankDifference difference;
    difference.what = reading.where == "loss" || reading.where == "scale" ? reading.where : std::string_view("parameters");
    difference.tensor = reading.tensor;
    difference.first = reading.rank;
    difference.other = reading.other_rank;
    difference.detail = reading.detail;
    add(std::move(difference), reading.line);
    return;
  }
  if (reading.kind == Reading::Kind::kDominates) {
    const bool large = reading.share.value_or(0) > thresholds_.dominant_gradient_share;
    if (!large || dominant_.name != reading.tensor) dominant_ = Dominant{reading.tensor, 0, 0};
    if (!large) return;
    dominant_.share = *reading.share;
    ++dominant_.times;
    return;
  }
  if (reading.where == "input" && reading.tensor.empty()) {
    input_ = true;
    return;
  }
  if (reading.where == "loss") {
    loss_ = reading.non_finite == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return;
  }
  const bool range = reading.kind == Reading::Kind::kModuleRange;
  Named named;
  named.name = reading.tensor;
  named.role = role_of(reading);
  named.nan = reading.non_finite == "nan" || reading.non_finite == "both";
  named.inf = reading.non_finite == "inf" || reading.non_finite == "both";
  if (range && reading.abs_max) {
    named.nan = named.nan || std::isnan(*reading.abs_max);
    named.inf = named.inf || std::isinf(*reading.abs_max);
    if (std::isfinite(*reading.abs_max)) named.largest = reading.abs_max;
  }
  if (!range && !named.nan && !named.inf) named.nan = true;  // a detector says that something is, not what
  // A headline over a dump names nothing: the dump does.
  if (named.name.empty() && range) return;
  for (Named& known : named_) {
    if (known.name != named.name || known.role != named.role) continue;
    known.nan = known.nan || named.nan;
    known.inf = known.inf || named.inf;
    if (named.largest) known.largest = std::max(known.largest.value_or(0), *named.largest);
    return;
  }
  if (named_.size() < kMaxNamed) named_.push_back(std::move(named));
}

void Notes::add(domain::RankDifference difference, std::uint64_t line) {
  if (empty()) line_ = line;
  if (differences_.size() < 8) differences_.push_back(std::move(difference));
}

void Notes::give(domain::AttemptDigest& digest) {
  digest.misuse = std::move(misuse_);
  digest.rank_differences = std::move(differences_);
  if (input_) digest.input_non_finite = true;
  if (loss_ && !digest.loss) digest.loss = loss_;
  const bool any_named =
      std::any_of(named_.begin(), named_.end(), [](const Named& n) { return (n.nan || n.inf) && !n.name.empty(); });
  auto table = std::make_shared<domain::TensorTable>();
  // A format with a wider range than fp16 shows: then nothing is said of its headroom.
  const bool wide =
      std::any_of(named_.begin(), named_.end(), [](const Named& n) { return n.largest.value_or(0) > kLargestFp16; });
  domain::TensorFaults low;
  low.rule = domain::TensorRule::kLowHeadroom;
  low.since = digest.attempt;
  low.since_step = digest.step;
  for (Named& named : named_) {
    if (named.name.empty() && any_named) continue;
    const auto id = static_cast<std::uint32_t>(table->size());
    domain::TensorInfo info;
    info.name = named.name.empty() ? std::string(domain::kUnnamed) : named.name;
    info.role = named.role;
    info.forward_index = id;
    if (named.nan || named.inf) {
      domain::NonFiniteTensor bad;
      bad.id = id;
      bad.nan = named.nan ? 1 : 0;
      bad.pos_inf = named.inf ? 1 : 0;  // of unknown sign
      digest.non_finite.push_back(bad);
      digest.observed_activations = digest.observed_activations || named.role == Role::kActivation;
      digest.observed_activation_gradients = digest.observed_activation_gradients || named.role == Role::kActivationGradient;
      digest.observed_gradients = digest.observed_gradients || named.role == Role::kGradient;
      digest.observed_parameters = digest.observed_parameters || named.role == Role::kParameter;
    } else if (!wide && named.role == Role::kActivation && named.largest.value_or(0) > 0) {
      const double beyond = thresholds_.low_headroom_octaves - std::log2(kLargestFp16 / *named.largest);
      if (beyond > 0) {
        ++low.tensors;
        low.worst.push_back({info.name, info.role, beyond});
      }
    }
    table->push_back(std::move(info));
  }
  if (dominates()) {
    domain::TensorFaults dominant;
    dominant.rule = domain::TensorRule::kDominantGradient;
    dominant.since = digest.attempt;
    dominant.since_step = digest.step;
    dominant.tensors = 1;
    dominant.worst.push_back({dominant_.name, Role::kGradient, dominant_.share});
    digest.tensor_faults.push_back(std::move(dominant));
  }
  digest.non_finite_total = static_cast<std::uint32_t>(digest.non_finite.size());
  if (low.tensors > 0) {
    std::stable_sort(low.worst.begin(), low.worst.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
    if (low.worst.size() > domain::TensorFaults::kMaxWorst) low.worst.resize(domain::TensorFaults::kMaxWorst);
    digest.tensor_faults.push_back(std::move(low));
  }
  if (!table->empty()) digest.table = std::move(table);
  const domain::Thresholds thresholds = thresholds_;
  Dominant dominant = std::move(dominant_);
  *this = Notes(thresholds);
  if (dominant.times < thresholds_.dominant_gradient_samples) dominant_ = std::move(dominant);
}

}  // namespace scalewatch::logimport
