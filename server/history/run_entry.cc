#include "server/history/run_entry.h"

#include <string_view>

#include "scalewatch/v1/history.pb.h"
#include "server/history/seal.h"
#include "server/history/wire.h"
#include "server/names/escape.h"

namespace scalewatch::history {

namespace {

using v1::RunSummary;

// Fields that are columns: they are what lists are sorted by, and win over the overview.
constexpr bool is_column(int field) {
  switch (field) {
    case RunSummary::kRunUidFieldNumber:
    case RunSummary::kNameFieldNumber:
    case RunSummary::kSegmentFieldNumber:
    case RunSummary::kStatusFieldNumber:
    case RunSummary::kCreatedMsFieldNumber:
    case RunSummary::kLastReportMsFieldNumber:
    case RunSummary::kWorstOpenFieldNumber:
      return true;
    default:
      return false;
  }
}

// Appends the run of an overview but for its columns. False when it is damaged.
bool put_run(std::string_view overview, std::string& out) {
  wire::Field field;
  while (!overview.empty()) {
    if (!wire::take(overview, field)) return false;
    if (field.number != v1::GetRunResponse::kRunFieldNumber) continue;
    const std::string_view run = field.content;
    std::size_t kept = 0;  // from here on
    for (std::string_view rest = run; !rest.empty();) {
      if (!wire::take(rest, field)) return false;
      if (!is_column(field.number)) continue;
      const std::size_t end = run.size() - rest.size();
      out.append(run, kept, end - field.size - kept);
      kept = end;
    }
    out.append(run, kept);
  }
  return true;
}

// One that is damaged would make the whole list unreadable.
void put_text(int field, std::string_view text, std::string& out) {
  if (names::is_utf8(text)) return wire::put_bytes(field, text, out);
  wire::put_bytes(field, names::escape(text), out);
}

}  // namespace

void encode_run(const Query& row, std::string& out) {
  out.clear();
  const auto overview = unsealed(row, 8);
  // Without a seal only a parser sees what is damaged, and one entry that can't be parsed spoils a whole list.
  if (!overview || !put_run(*overview, out) || (!row.connection().all_sealed() && !RunSummary().ParseFromString(out))) {
    out.clear();
  }
  put_text(RunSummary::kRunUidFieldNumber, row.view(1), out);
  put_text(RunSummary::kNameFieldNumber, row.view(2), out);
  wire::put_number(RunSummary::kCreatedMsFieldNumber, row.i64(3), out);
  wire::put_number(RunSummary::kLastReportMsFieldNumber, row.i64(4), out);
  wire::put_number(RunSummary::kSegmentFieldNumber, row.u32(5), out);
  wire::put_number(RunSummary::kStatusFieldNumber, row.i32(6), out);
  wire::put_number(RunSummary::kWorstOpenFieldNumber, row.i32(7), out);
}

}  // namespace scalewatch::history
