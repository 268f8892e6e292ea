// All tensors at one attempt.
#include <algorithm>
#include <string>

#include "server/history/api_impl.h"
#include "server/history/attempt_octaves.h"
#include "server/history/attempt_records.h"
#include "server/history/older_answers.h"
#include "server/history/older_reading.h"
#include "server/history/page_token.h"
#include "server/history/scaler_reader.h"
#include "server/history/varint.h"
#include "server/history/wire.h"

namespace scalewatch::history {

namespace {

constexpr char kToken = 'a';
constexpr std::size_t kEntryBytes = 192;  // of a tensor in an answer, roughly

// What the lowest rank says goes; what it leaves out comes from the next one that has it.
void add_summary(const RankReports& reports, v1::AttemptSummary& summary) {
  const auto& report = reports.front();
  if (summary.ranks().empty()) {
    summary.set_attempt(report.attempt);
    summary.set_step(report.step);
    summary.set_time_ms(report.time_ms);
  }
  summary.add_ranks(report.rank);
  if (report.loss && !summary.has_loss()) summary.set_loss(*report.loss);
  if (report.lr && !summary.has_lr()) summary.set_lr(*report.lr);
  if (report.grad_norm && !summary.has_grad_norm()) summary.set_grad_norm(*report.grad_norm);
}

// Names of `count` tensors from `begin` on; none when these are all.
OlderHistory::Tensors named(const Catalog& catalog, std::size_t begin, std::size_t count) {
  OlderHistory::Tensors names;
  if (begin == 0 && count >= catalog.tensors.size()) return names;
  for (std::size_t i = begin; i < std::min(begin + count, catalog.tensors.size()); ++i) {
    names.emplace_back(catalog.tensors[i].info.name(), catalog.tensors[i].info.role());
  }
  return names;
}

}  // namespace

engine::Status Api::encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) {
  return guard(answer, [&] { do_encode_attempt(request, answer); });
}

engine::Status Api::get_attempt(const v1::GetAttemptRequest& request, v1::GetAttemptResponse& response) {
  return guard_decoded(response, [&](std::string& answer) { do_encode_attempt(request, answer); });
}

void Api::do_encode_attempt(const v1::GetAttemptRequest& request, std::string& answer) {
  const std::size_t size = checked_page_size(request.page_size());
  const auto token = read_token(request.page_token(), kToken, 5);
  const StoredRun run = run_named(request.run());
  // The newest attempt moves on while pages are read: the token holds on to the one of the first page.
  std::uint32_t segment = checked_segment(run, request.segment(), "segment");
  if (!token.empty()) segment = checked_segment(run, static_cast<std::uint32_t>(token_number(token[0])), "page_token");
  std::uint64_t attempt = token.empty() ? request.attempt() : static_cast<std::uint64_t>(token_number(token[1]));
  std::optional<std::uint32_t> of_rank;
  if (request.has_rank()) of_rank = request.rank();
  auto walk = walks_.take({run.row.run_uid, segment, of_rank}, attempt, !token.empty());
  Reading reading(pool_, walk.get());
  if (attempt == 0) attempt = newest_attempt(reading, pool_, run.id, segment).value_or(0);
  if (token.empty() && (request.or_next() || reading.older(run.id, segment) != nullptr)) {
    const auto next = next_attempt(reading, pool_, run.id, segment, attempt);
    if (next && request.or_next()) attempt = *next;
  }

  const auto catalog = catalogs_.get(run.id, segment);
  const ReportRange range{run.id, segment, attempt, attempt, of_rank};
  StoredRecords stored(reading);
  AttemptRecords records(*catalog, stored);
  AttemptOctaves octaves(*catalog, stored);
  std::size_t begin = 0;
  if (!token.empty()) {
    begin = catalog->after(static_cast<std::uint32_t>(token_number(token[2])),
                           static_cast<std::int32_t>(token_number(token[3])), token[4]);
  }
  OlderReading* const older = reading.older(run.id, segment);
  v1::AttemptSummary summary;
  // Of a wide model only as many tensors as a page shows; more when some of these have no record.
  std::size_t window = size + 1;
  for (bool more = true; more; window *= 8) {
    summary.Clear();
    octaves.clear();
    records.only(begin, begin + window);
    if (older != nullptr) older->only(named(*catalog, begin, window));
    const auto take = [&](const RankReports& reports) {
      add_summary(reports, summary);
      if (request.summary_only()) return;
      records.add(reports);
      if (request.octaves()) octaves.add(reports);
    };
    ReportReader(reading, *catalog, deadline()).read(range, take, !request.summary_only());
    more = !request.summary_only() && begin + window < catalog->tensors.size() && records.present().size() <= size;
  }
  reading.pause();
  if (summary.ranks().empty()) {
    const auto bounds = bounds_of(reading, pool_, run.id, segment);
    walks_.put_back(std::move(walk), false);
    if (!bounds) throw ApiError{{engine::Status::kNotFound, "run \"" + run.row.name + "\" has no report yet"}};
    const std::string whose = of_rank ? " of rank " + std::to_string(*of_rank) : "";
    throw ApiError{{engine::Status::kNotFound,
                    "no report" + whose + " for attempt " + std::to_string(attempt) + " of segment " + std::to_string(segment) +
                        "; attempts " + std::to_string(bounds->first) + " to " + std::to_string(bounds->last) + " are stored"}};
  }
  summary.set_segment(segment);
  for (auto& point : scalers_at(reading, pool_, run.id, segment, attempt, of_rank)) *summary.add_scalers() = std::move(point);
  for (const std::uint32_t rank : missing_ranks(reading, pool_, run.id, segment, attempt)) summary.add_missing(rank);

  wire::put_message(v1::GetAttemptResponse::kAttemptFieldNumber, summary, answer);

  const auto tensors = records.present();
  answer.reserve(answer.size() + std::min(size, tensors.size()) * kEntryBytes);
  std::string entry;
  std::string ranks;
  for (std::size_t i = 0; i < std::min(size, tensors.size()); ++i) {
    const auto& merged = records.of(tensors[i]);
    const v1::Record record = to_proto(merged.total());
    entry.clear();
    ranks.clear();
    merged.each_rank([&](std::uint32_t rank) { put_varint(rank, ranks); });
    wire::put_message(v1::TensorRecord::kInfoFieldNumber, catalog->tensors[tensors[i]].info, entry);
    wire::put_message(v1::TensorRecord::kRecordFieldNumber, record, entry);
    wire::put_bytes(v1::TensorRecord::kRanksFieldNumber, ranks, entry);
    if (const auto histogram = octaves.of(tensors[i], record)) {
      wire::put_message(v1::TensorRecord::kOctavesFieldNumber, *histogram, entry);
    }
    wire::put_bytes(v1::GetAttemptResponse::kTensorsFieldNumber, entry, answer);
  }
  walks_.put_back(std::move(walk), tensors.size() > size);
  if (tensors.size() > size) {
    const auto& last = catalog->tensors[tensors[size - 1]].info;
    wire::put_bytes(v1::GetAttemptResponse::kNextPageTokenFieldNumber,
                    make_token(kToken, {std::to_string(segment), std::to_string(attempt), std::to_string(last.forward_index()),
                                        std::to_string(last.role()), last.name()}),
                    answer);
  }
}

}  // namespace scalewatch::history
