// Tensors: listing, one tensor over attempts, and the ones that lead.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/history/api_impl.h"
#include "server/history/attempt_records.h"
#include "server/history/older_answers.h"
#include "server/history/older_reading.h"
#include "server/history/page_token.h"
#include "server/history/tensor_series.h"
#include "server/names/nearest.h"

namespace scalewatch::history {

namespace {

// "gradient", as the command writes it.
std::string role_word(v1::Role role) {
  if (!v1::Role_IsValid(role)) return "number " + std::to_string(static_cast<int>(role));
  std::string word = v1::Role_Name(role).substr(std::string_view("ROLE_").size());
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

constexpr char kToken = 't';
constexpr std::size_t kMaxCompared = 20'000;  // tensor names that a misspelled one is held against

}  // namespace

engine::Status Api::list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) {
  return guard(response, [&] { do_list_tensors(request, response); });
}

engine::Status Api::get_tensor_history(const v1::GetTensorHistoryRequest& request, v1::GetTensorHistoryResponse& response) {
  return guard(response, [&] { do_get_tensor_history(request, response); });
}

std::uint32_t Api::tensor_named(const Catalog& catalog, const std::string& name, v1::Role role) {
  auto found = catalog.find(name);
  if (role != v1::ROLE_UNSPECIFIED) std::erase_if(found, [&](auto i) { return catalog.tensors[i].info.role() != role; });
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    std::string roles;
    for (const auto i : found) {
      roles += (roles.empty() ? "" : ", ") + role_word(catalog.tensors[i].info.role());
    }
    invalid("role", "tensor \"" + name + "\" has several, say which: " + roles);
  }
  std::string roles;
  for (const auto& tensor : catalog.tensors) {
    if (tensor.info.name() == name) roles += (roles.empty() ? "" : ", ") + role_word(tensor.info.role());
  }
  if (!roles.empty()) {
    throw ApiError{
        {engine::Status::kNotFound, "tensor \"" + name + "\" is not a " + role_word(role) + "; it is there as " + roles}};
  }
  names::NearestNames nearest(name);
  for (std::size_t i = 0; i < std::min(catalog.tensors.size(), kMaxCompared); ++i) {
    if (role == v1::ROLE_UNSPECIFIED || catalog.tensors[i].info.role() == role) nearest.offer(catalog.tensors[i].info.name());
  }
  const std::string with_role = role == v1::ROLE_UNSPECIFIED ? "" : " with role " + role_word(role);
  throw ApiError{{engine::Status::kNotFound, "unknown tensor \"" + name + "\"" + with_role + nearest.text()}};
}

namespace {

// The newest record of each tensor of a page.
class NewestRecords {
 public:
  NewestRecords(Reading& reading, const Catalog& catalog, ReportReader& reader, const std::vector<std::uint32_t>& page,
                v1::ListTensorsResponse& response)
      : reading_(reading),
        reader_(reader),
        page_(page),
        response_(response),
        stored_(reading),
        records_(catalog, stored_),
        newest_(page.size()),
        missing_(page.size()) {}

  // In the newest `most` attempts: one by one, and of what only a shared history has, behind the first, in all that are left at
  // once. `before` names the attempt before one.
  void look_back(ReportRange range, std::uint32_t most,
                 const std::function<std::optional<std::uint64_t>(std::uint64_t)>& before) {
    std::uint64_t end = std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t looked = 0; missing_ > 0 && looked < most;) {
      const auto attempt = before(end);
      if (!attempt || (looked > 0 && reader_.late())) return;
      range.first = range.last = *attempt;
      OlderReading* const older = reading_.older();
      if (older != nullptr && looked > 0 && *attempt < older->floor()) {
        range.first -= std::min<std::uint64_t>(range.first, most - looked - 1);
        older->only(missing());
      }
      const std::uint32_t read = read_all(range);
      if (read == 0) return;
      tell();
      looked += read;
      end = range.first;
    }
  }

 private:
  // Names of those that none was found of.
  [[nodiscard]] OlderHistory::Tensors missing() const {
    OlderHistory::Tensors names;
    for (const auto& tensor : response_.tensors()) {
      if (!tensor.has_last()) names.emplace_back(tensor.info().name(), tensor.info().role());
    }
    return names;
  }
  // Returns how many attempts; 0: the time was over before the newest of them.
  std::uint32_t read_all(const ReportRange& range) {
    std::uint32_t attempts = 0;
    std::uint64_t attempt = 0;
    const auto close = [&] {
      for (std::size_t i = 0; i < page_.size(); ++i) {
        if (!records_.of(page_[i]).empty()) newest_[i] = {attempt, records_.of(page_[i]).total()};
      }
      records_.clear();
    };
    const auto rest = reader_.read(range, [&](const RankReports& reports) {
      if (attempts == 0 || reports.front().attempt != attempt) {
        close();
        ++attempts;
      }
      attempt = reports.front().attempt;
      records_.add(reports);
    });
    if (rest) return 0;
    close();
    return std::max(attempts, 1U);
  }
  void tell() {
    for (std::size_t i = 0; i < page_.size(); ++i) {
      auto& tensor = *response_.mutable_tensors(static_cast<int>(i));
      if (tensor.has_last() || !newest_[i]) continue;
      tensor.set_last_attempt(newest_[i]->first);
      *tensor.mutable_last() = to_proto(newest_[i]->second);
      --missing_;
    }
  }

  Reading& reading_;
  ReportReader& reader_;
  const std::vector<std::uint32_t>& page_;
  v1::ListTensorsResponse& response_;
  StoredRecords stored_;
  AttemptRecords records_;
  std::vector<std::optional<std::pair<std::uint64_t, Measured>>> newest_;  // of the page's tensors
  std::size_t missing_ = 0;
};

}  // namespace

void Api::do_list_tensors(const v1::ListTensorsRequest& request, v1::ListTensorsResponse& response) {
  const std::size_t size = checked_page_size(request.page_size());
  const auto token = read_token(request.page_token(), kToken, 3);
  const StoredRun run = run_named(request.run());
  const auto catalog = catalogs_.get(run.id, run.row.segment);
  std::size_t next = 0;
  if (!token.empty()) {
    next = catalog->after(static_cast<std::uint32_t>(token_number(token[0])), static_cast<std::int32_t>(token_number(token[1])),
                          token[2]);
  }
  std::vector<std::uint32_t> page;
  for (; next < catalog->tensors.size(); ++next) {
    const auto& info = catalog->tensors[next].info;
    if (request.role() != v1::ROLE_UNSPECIFIED && info.role() != request.role()) continue;
    if (info.name().find(request.name_contains()) == std::string::npos) continue;
    if (page.size() == size) {
      const auto& last = catalog->tensors[page.back()].info;
      response.set_next_page_token(
          make_token(kToken, {std::to_string(last.forward_index()), std::to_string(last.role()), last.name()}));
      break;
    }
    page.push_back(static_cast<std::uint32_t>(next));
    auto& tensor = *response.add_tensors();
    *tensor.mutable_info() = info;
    tensor.set_ranks(catalog->tensors[next].ranks);
  }

  Reading reading(pool_, older_);
  ReportReader reader(reading, *catalog, deadline());
  NewestRecords(reading, *catalog, reader, page, response)
      .look_back({run.id, run.row.segment, 0, 0, {}}, limits_.newest_record_attempts,
                 [&](std::uint64_t attempt) { return last_attempt_before(reading, run.id, run.row.segment, attempt); });
}

namespace {

// Attempts gathered into points of equal width, but for this: of wide ones, what is stored as one summary goes whole into the
// point where it begins, for a point tells which attempts it is of.
class Points final : public TensorSeries::Sink {
 public:
  Points(std::uint64_t first, std::uint64_t width, v1::GetTensorHistoryResponse& response)
      : first_(first), width_(width), response_(response) {}
  ~Points() { close(); }

  bool takes_summary(std::uint64_t first, std::uint64_t last) override {
    return number(first) == number(last) || width_ >= kWide;
  }
  void summary(std::uint64_t first, std::uint64_t last, const TensorSummary& summary) override {
    begin(first);
    sum_.records == 0 ? void(sum_ = summary) : sum_.add(summary);
    last_attempt_ = last;
  }
  void record(std::uint64_t attempt, const Measured& measured) override {
    begin(attempt);
    sum_.add(0, measured);
    last_attempt_ = attempt;
  }
  [[nodiscard]] std::optional<AttemptGrid> grid() const override { return AttemptGrid{first_, width_}; }

 private:
  static constexpr std::uint64_t kWide = 4 * kStretchReports;

  [[nodiscard]] std::uint64_t number(std::uint64_t attempt) const { return (attempt - first_) / width_; }

  // What begins at this attempt follows.
  void begin(std::uint64_t attempt) {
    if (sum_.records > 0 && number(attempt) != number_) close();
    if (sum_.records == 0) first_attempt_ = attempt;
    number_ = number(attempt);
  }

  void close() {
    if (sum_.records == 0) return;
    auto& point = *response_.add_points();
    point.set_first_attempt(first_attempt_);
    point.set_last_attempt(last_attempt_);
    point.set_attempts(sum_.records);
    *point.mutable_record() = to_proto(sum_.total);
    if (sum_.headroom) point.set_min_headroom(*sum_.headroom);
    point.set_scale_low(sum_.scale_low);
    point.set_scale_high(sum_.scale_high);
    sum_ = {};
  }

  const std::uint64_t first_;
  const std::uint64_t width_;
  v1::GetTensorHistoryResponse& response_;
  std::uint64_t first_attempt_ = 0;
  std::uint64_t last_attempt_ = 0;
  std::uint64_t number_ = 0;  // of the point
  TensorSummary sum_;
};

}  // namespace

void Api::do_get_tensor_history(const v1::GetTensorHistoryRequest& request, v1::GetTensorHistoryResponse& response) {
  const std::size_t max_points = checked_limit("max_points", request.max_points(), 1000, 10'000);
  const StoredRun run = run_named(request.run());
  const std::uint32_t segment = checked_segment(run, request.range().segment(), "range.segment");
  const auto catalog = catalogs_.get(run.id, segment);
  const std::uint32_t tensor = tensor_named(*catalog, request.tensor(), request.role());
  *response.mutable_info() = catalog->tensors[tensor].info;
  Reading reading(pool_, older_);
  const auto span = span_of(reading, run, request.range());
  if (!span) return;

  ReportRange range{run.id, segment, span->first, span->last, std::nullopt};
  if (request.has_rank()) range.rank = request.rank();
  std::optional<std::uint64_t> rest;
  {
    Points points(span->first, (span->last - span->first) / max_points + 1, response);
    rest = TensorSeries(reading, *catalog, tensor).read(range, deadline(), points);
  }
  if (rest) {
    response.set_truncated(true);
    response.set_next_attempt(*rest);
  }
}

}  // namespace scalewatch::history
