#include "tests/unit/domain/random_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "server/domain/policy.h"
#include "server/domain/tensor_facts.h"

namespace scalewatch::domain {
namespace {

constexpr std::array kRoles{Role::kParameter,          Role::kGradient,       Role::kActivation,
                            Role::kActivationGradient, Role::kOptimizerState, Role::kBuffer};
constexpr std::uint32_t kLayers = 4;
constexpr std::uint64_t kNumel = 4096;

std::shared_ptr<const TensorTable> make_table() {
  TensorTable table;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    for (const Role role : kRoles) {
      TensorInfo info;
      info.name = std::string("layers.") + std::to_string(layer);
      if (role == Role::kOptimizerState) info.name += ".exp_avg_sq";
      if (role == Role::kBuffer) info.name += ".running_var";
      info.role = role;
      info.dtype = (role == Role::kOptimizerState && layer % 2 == 0) || role == Role::kBuffer ? DType::kFp32 : DType::kFp16;
      info.numel = kNumel;
      info.forward_index = layer;
      if (role == Role::kParameter) info.replica = "dp";
      if (role == Role::kGradient || role == Role::kParameter) info.optimizer = layer < kLayers / 2 ? "adam" : "sgd";
      table.push_back(std::move(info));
    }
  }
  return std::make_shared<const TensorTable>(std::move(table));
}

// How a tensor behaves from now on, so that windows of samples fill one way or the other.
enum class Mood : std::uint8_t {
  kFine,
  kZero,
  kSubnormal,
  kHigh,
  kWide,
  kDominant,
  kFlushed,
  kOver,
  kNan,
  kPlusInf,
  kMinusInf,
  kMoods
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed), table_(make_table()) {
    const std::vector<std::string_view> names = policy_names();
    policy_[0] = names[seed % names.size()];
    policy_[1] = names[below(names.size())];
    ranks_ = 1 + static_cast<std::uint32_t>(below(4));
    badness_ = chance(30) ? 2 : below(40);
    scalers_ = !chance(12);
    steady_ = chance(40);
    compute_ = chance(70) ? DType::kFp16 : static_cast<DType>(1 + below(6));
  }

  std::vector<RunInput> run(int length) {
    open_segment();
    for (int i = 0; i < length; ++i) {
      attempt();
      now_ += chance(2) ? 30'000 : 50;
      between();
    }
    for (Rank rank = 0; rank < ranks_; ++rank) add(RankLeft{rank, "done", now_});
    return std::move(inputs_);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <class T>
  void add(const T& input) {
    inputs_.emplace_back(std::in_place_type<Input>, input);
  }

  void open_segment() {
    add(SegmentOpened{++segment_, now_});
    next_ = 1;
    search_ = chance(30) ? 5 + static_cast<int>(below(20)) : 0;
    for (std::size_t i = 0; i < 2; ++i) {
      parameters_[i].clear();
      if (chance(60)) parameters_[i]["growth_interval"] = static_cast<double>(2 + below(20));
      if (chance(40)) parameters_[i]["init_scale"] = std::exp2(static_cast<double>(below(33)));
      policies_[i] = make_policy(policy_[i], parameters_[i]);
    }
    for (Rank rank = 0; rank < ranks_; ++rank) join(rank);
  }

  void join(Rank rank) {
    RankJoined joined;
    joined.rank = rank;
    joined.world_size = ranks_;
    joined.host = std::string("node") + std::to_string(rank % 2);
    joined.pid = 100 + rank;
    joined.gpu_uuid = std::string("GPU-") + std::to_string(rank);
    joined.framework = "pytorch 2.4";
    joined.compute_dtype = compute_;
    if (scalers_) {
      joined.scalers = {{"a", std::string(policy_[0]), parameters_[0]}, {"b", std::string(policy_[1]), parameters_[1]}};
    }
    joined.optimizers = {{"adam", "Adam", 0, 0.1, chance(30)}, {"sgd", "SGD", 1, {}, false}};
    joined.optimizers[0].eps = 1e-8;
    if (chance(50)) joined.optimizers[0].state_dtypes = {DType::kFp16, DType::kFp16};
    joined.now = now_;
    add(joined);
  }

  void attempt() {
    const bool searching = search_ > 0 && search_-- > 0;
    const std::array skip{searching || chance(static_cast<unsigned>(badness_)), chance(10)};
    if (frozen_ > 0 ? --frozen_ == 0 : !chance(2)) {
      ++step_;
    } else if (frozen_ == 0) {
      frozen_ = 12;
    }
    for (Mood& mood : moods_) {
      if (chance(steady_ ? 1 : 3))
        mood = chance(50) ? Mood::kFine : static_cast<Mood>(below(static_cast<std::uint64_t>(Mood::kMoods)));
    }
    if (chance(2)) drift_ = static_cast<double>(below(7)) - 3;
    level_ = std::clamp(level_ + drift_ / 8, -30.0, 16.0);
    std::array<double, 2> before{};
    std::array<double, 2> after{};
    for (std::size_t i = 0; i < 2; ++i) {
      before[i] = policies_[i]->scale();
      if (policies_[i]->fatal().empty() || !skip[i]) policies_[i]->update(skip[i]);
      after[i] = chance(2) ? odd_scale(before[i]) : policies_[i]->scale();
    }
    std::vector<Rank> missing;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (chance(4)) {
        missing.push_back(rank);
        if (chance(50)) late_.push_back(report(rank, skip, before, after));
        continue;
      }
      inputs_.emplace_back(report(rank, skip, before, after));
    }
    if (!chance(2)) add(AttemptClosed{next_, missing, now_});
    ++next_;
  }

  double odd_scale(double scale) {
    constexpr std::array kOdd{0.0, 0x1p-140, 0x1p-20, 0x1p40, static_cast<double>(INFINITY), static_cast<double>(NAN), -1.0};
    return chance(40) ? kOdd[below(kOdd.size())] : scale * (chance(50) ? 4 : 1);
  }

  RankReportInput report(Rank rank, const std::array<bool, 2>& skip, const std::array<double, 2>& before,
                         const std::array<double, 2>& after) {
    RankReportInput report;
    AttemptDigest& head = report.head;
    head.rank = rank;
    head.attempt = next_ + (chance(4) ? below(6) : 0);
    head.step = step_ - (chance(1) ? 3 : 0);
    head.now = now_;
    head.table = table_;
    for (std::uint32_t i = 0; i < 2 && scalers_; ++i) {
      if (i == 1 && !chance(60)) continue;
      ScalerObservation scaler;
      scaler.scaler = i;
      if (!chance(10)) scaler.scale_before = before[i];
      if (!chance(10)) scaler.scale_after = chance(1) ? 2 * after[i] : after[i];
      if (chance(40)) scaler.growth_tracker = below(20);
      if (chance(20)) scaler.hysteresis = static_cast<std::int32_t>(below(3));
      OptimizerObservation optimizer;
      optimizer.optimizer = i;
      if (!chance(20)) optimizer.found_inf_local = skip[i] && chance(60) ? 1 : 0;
      if (!chance(20)) optimizer.found_inf_decided = skip[i] ? static_cast<double>(1 + below(2)) : 0;
      if (chance(50)) optimizer.outcome = skip[i] ? Outcome::kSkipped : Outcome::kApplied;
      if (!chance(10)) scaler.optimizers.push_back(optimizer);
      head.scalers.push_back(std::move(scaler));
    }
    if (!chance(10))
      head.loss = chance(steady_ ? 1 : 4) ? static_cast<double>(NAN) : 2 + 0.01 * static_cast<double>(below(100));
    if (head.loss && chance(steady_ ? 1 : 3)) *head.loss *= 50;
    if (chance(50)) head.lr = chance(5) ? 0.0 : 0.001;
    if (chance(60)) head.grad_norm = chance(4) ? static_cast<double>(NAN) : std::exp2(static_cast<double>(below(100)) / 10);
    head.grad_norm_scaled = chance(10);
    head.grad_norm_clipped = chance(20);
    head.phase = chance(90) ? Phase::kTrain : static_cast<Phase>(below(5));
    constexpr std::array kMisuse{"clip_before_unscale", "unscale_twice", "update_missing", "step_without_scale", "novel"};
    if (chance(2)) head.misuse.push_back({kMisuse[below(kMisuse.size())], "detail", chance(20)});
    if (chance(2)) head.input_non_finite = chance(50);
    if (chance(3)) head.statistics_lost = static_cast<LossCause>(1 + below(7));
    for (const Role role : kRoles) {
      if (chance(70)) report.blocks.push_back(block(role, before[0], rank));
    }
    return report;
  }

  RecordStore block(Role role, double scale, Rank rank) {
    RecordStore store;
    RecordColumns& columns = store.columns;
    columns.role = role;
    columns.measured_under_scale = role == Role::kGradient || role == Role::kActivationGradient ? scale : 1;
    columns.target = role == Role::kOptimizerState ? DType::kFp32 : (is_fp8(compute_) ? compute_ : DType::kFp16);
    for (std::uint32_t id = 0; id < table_->size(); ++id) {
      if ((*table_)[id].role == role && !chance(3)) store.ids.push_back(id);
    }
    columns.count = static_cast<std::uint32_t>(store.ids.size());
    columns.micro_batches = 1 + static_cast<std::uint32_t>(below(2));
    for (std::uint32_t i = 0; i < columns.count; ++i) add_record(store, i, role, rank);
    return store;
  }

  void add_record(RecordStore& store, std::uint32_t index, Role role, Rank rank) {
    const Mood mood = moods_[store.ids[index]];
    double top = std::exp2(level_);
    std::uint64_t zero = below(50);
    std::uint64_t subnormal = below(50);
    std::uint64_t flushed = 0;
    const auto bad = [&](std::vector<SparseCount>& list) {
      list.push_back({index, 1 + below(9)});
      if (chance(50)) store.columns.first_bad_micro.push_back({index, below(2)});
    };
    if (mood == Mood::kZero) top = 0, zero = kNumel, subnormal = 0;
    if (mood == Mood::kSubnormal) top = 0x1p-15, subnormal = kNumel - zero;
    if (mood == Mood::kHigh) top = chance(70) ? 40'000 : 65'504;
    if (mood == Mood::kWide) top = 50'000, subnormal = kNumel / 3;
    if (mood == Mood::kDominant) top = 4 * std::exp2(level_);
    if (mood == Mood::kFlushed) flushed = subnormal = kNumel / 2;
    if (mood == Mood::kOver) store.columns.over.push_back({index, 3});
    if (mood == Mood::kNan && chance(60)) bad(store.columns.nan);
    if (mood == Mood::kPlusInf && chance(60)) bad(store.columns.pos_inf);
    if (mood == Mood::kMinusInf && chance(60)) bad(store.columns.neg_inf);
    if (mood == Mood::kNan && chance(5)) top = NAN;
    if (role == Role::kParameter && chance(1)) top *= 1 + 0.001 * rank;  // a replica that drifted
    store.min.push_back(static_cast<float>(-top));
    store.max.push_back(static_cast<float>(top / 2));
    store.absmin.push_back(top > 0 ? static_cast<float>(top * 0x1p-16) : NAN);
    store.sum.push_back(std::isnan(top) ? 0 : top * 3);
    store.sum_sq.push_back(
        std::isnan(top) ? 0 : top * top * static_cast<double>(1 + below(100)) * (mood == Mood::kDominant ? 1e4 : 1));
    store.zero.push_back(zero);
    store.subnormal.push_back(subnormal);
    store.flushed.push_back(flushed);
  }

  // What happens between attempts.
  void between() {
    while (!late_.empty() && chance(40)) {
      RankReportInput report = std::move(late_.front());
      late_.erase(late_.begin());
      report.head.retrospective = chance(50);
      report.head.now = now_;
      inputs_.emplace_back(std::move(report));
    }
    if (chance(3)) {  // a ring's detail of an attempt that is over
      const std::array<double, 2> scale{1, 1};
      RankReportInput detail = report(static_cast<Rank>(below(ranks_)), {true, true}, scale, scale);
      detail.head.attempt = next_ - std::min<Attempt>(next_, 1 + below(5));
      detail.head.retrospective = true;
      inputs_.emplace_back(std::move(detail));
    }
    if (chance(4)) {
      Liveness liveness;
      liveness.now = now_;
      const TimeMs silence = chance(20) ? 700'000 : 70'000;
      liveness.server_up = chance(80) ? 1'000'000 : 0;
      const bool waits = chance(30);  // for nothing: all beat, none reports
      if (waits) liveness.now = now_ += 100'000;
      const bool training = chance(80);
      for (Rank rank = 0; rank < ranks_; ++rank) {
        const TimeMs last = now_ - (!waits && chance(40) ? silence : 10);
        liveness.ranks.push_back({rank, last, chance(50), training ? Phase::kTrain : static_cast<Phase>(below(5))});
      }
      add(liveness);
    }
    if (chance(2))
      add(ReportsLost{static_cast<Rank>(below(ranks_)), below(3), below(9), static_cast<LossCause>(below(9)), now_});
    if (chance(1)) add(ServerLag{static_cast<TimeMs>(below(9000)), chance(40), "no space left", now_});
    if (chance(2)) add(Acknowledged{"", "somebody", "seen", now_});  // of the worst open finding
    if (chance(1)) add(RankLeft{static_cast<Rank>(below(ranks_)), "done", now_});
    if (chance(1)) join(static_cast<Rank>(below(ranks_)));
    if (below(300) == 0) open_segment();
  }

  std::mt19937_64 random_;
  std::shared_ptr<const TensorTable> table_;
  std::array<std::string_view, 2> policy_;
  std::array<PolicyParameters, 2> parameters_;
  std::array<std::unique_ptr<Policy>, 2> policies_;
  std::uint32_t ranks_ = 1;
  std::uint64_t badness_ = 0;
  DType compute_ = DType::kFp16;
  std::array<Mood, kLayers * kRoles.size()> moods_{};
  double level_ = 0;  // of every tensor's largest magnitude, octaves
  double drift_ = 0;
  bool scalers_ = true;
  bool steady_ = false;  // little changes, so that long windows fill
  int search_ = 0;       // attempts that the scale is still too high for
  int frozen_ = 0;       // attempts that the step stands still for
  std::int64_t step_ = 0;
  TimeMs now_ = 1000;
  std::uint32_t segment_ = 0;
  Attempt next_ = 1;
  std::vector<RankReportInput> late_;
  std::vector<RunInput> inputs_;
};

}  // namespace

std::vector<RunInput> random_run(std::uint64_t seed, int length) {
  return Generator(seed).run(length);
}

}  // namespace scalewatch::domain
