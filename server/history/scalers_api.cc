// What a scaler did over attempts.
#include <string>

#include "server/history/api_impl.h"
#include "server/history/older_answers.h"
#include "server/history/page_token.h"
#include "server/history/scaler_reader.h"
#include "server/history/scaler_sums.h"

namespace scalewatch::history {

namespace {

// Attempts gathered into points of equal width, cut where the attempts of one sum end where they are wide: so they are the same
// whether they are read from sums or attempt by attempt.
class Points final : public ScalerSink {
 public:
  Points(std::uint32_t scaler, std::uint64_t first, std::uint64_t last, std::uint64_t most,
         v1::GetScalerHistoryResponse& response)
      : scaler_(scaler), first_(first), width_((last - first) / most + 1), response_(response) {
    if (width_ < kWide) return;
    first_ -= first_ % kScalerBucket;
    width_ = ((last - first_) / most / kScalerBucket + 1) * kScalerBucket;
  }

  bool takes_point(std::uint64_t first, std::uint64_t last) override { return number(first) == number(last); }
  void point(const v1::ScalerPoint& later) override {
    auto& point = at(later.first_attempt());
    add_to_point(later, point);
    point.set_scaler(scaler_);
  }
  void attempt(const StoredScaler& row) override { add_to_point(row, at(row.attempt)); }

 private:
  static constexpr std::uint64_t kWide = 4 * kScalerBucket;

  [[nodiscard]] std::uint64_t number(std::uint64_t attempt) const { return (attempt - first_) / width_; }
  v1::ScalerPoint& at(std::uint64_t attempt) {
    if (response_.points().empty() || number(attempt) != current_) response_.add_points()->set_scaler(scaler_);
    current_ = number(attempt);
    return *response_.mutable_points()->rbegin();
  }

  const std::uint32_t scaler_;
  std::uint64_t first_;
  std::uint64_t width_;
  v1::GetScalerHistoryResponse& response_;
  std::uint64_t current_ = 0;
};

}  // namespace

engine::Status Api::get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) {
  return guard(response, [&] { do_get_scaler_history(request, response); });
}

void Api::do_get_scaler_history(const v1::GetScalerHistoryRequest& request, v1::GetScalerHistoryResponse& response) {
  const std::size_t max_points = checked_limit("max_points", request.max_points(), 1000, 10'000);
  const StoredRun run = run_named(request.run());
  v1::GetRunResponse overview;
  overview.ParseFromString(run.row.overview);
  bool known = false;
  std::string others;
  for (auto& scaler : *overview.mutable_scalers()) {
    others += (others.empty() ? "" : ", ") + std::to_string(scaler.scaler()) + " (" + scaler.name() + ")";
    if (scaler.scaler() != request.scaler()) continue;
    *response.mutable_scaler() = std::move(scaler);
    known = true;
  }
  Reading reading(pool_, older_);
  if (const auto span = span_of(reading, run, request.range())) {
    std::optional<std::uint32_t> rank;
    if (request.has_rank()) rank = request.rank();
    Points points(request.scaler(), span->first, span->last, max_points, response);
    const auto rest = read_scaler(reading, pool_, {run.id, span->segment, request.scaler(), span->first, span->last, rank},
                                  deadline(), points);
    if (rest) {
      throw ApiError{{engine::Status::kResourceExhausted, "range: attempts " + std::to_string(span->first) + " to " +
                                                              std::to_string(*rest - 1) +
                                                              " are as many as can be read at once; ask for a smaller range"}};
    }
  }
  if (!known && response.points().empty()) {
    throw ApiError{{engine::Status::kNotFound, "run \"" + run.row.name + "\" has no scaler " +
                                                   std::to_string(request.scaler()) +
                                                   (others.empty() ? "; it reported none" : "; it has " + others)}};
  }
  response.mutable_scaler()->set_scaler(request.scaler());
}

}  // namespace scalewatch::history
