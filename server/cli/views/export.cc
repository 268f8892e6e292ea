// A run as rows, attempt by attempt, in memory that does not grow with the run.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "server/cli/attempts.h"
#include "server/cli/text/units.h"
#include "server/cli/views/export_rows.h"
#include "server/cli/views/views.h"
#include "server/cli/words.h"

namespace scalewatch::cli {

namespace {

std::string ranks_list(const google::protobuf::RepeatedField<std::uint32_t>& ranks) {
  return fmt::format("{}", fmt::join(ranks, " "));
}

void check(const Screen& screen) {
  if (!screen.out) throw CallError("the output can't be written: is the disk full, or its reader gone?", kExitNothing);
}

template <class Optional>
Field present(bool has, Optional value) {
  return has ? Field(static_cast<double>(value)) : Field();
}

void write_tensor(RowWriter& rows, const v1::AttemptSummary& attempt, const v1::TensorRecord& tensor) {
  const auto& info = tensor.info();
  const auto& r = tensor.record();
  rows.write({std::uint64_t{attempt.segment()},
              attempt.attempt(),
              attempt.step(),
              info.name(),
              std::string(role_word(static_cast<Role>(info.role()))),
              std::string(dtype_word(info.dtype())),
              std::uint64_t{info.forward_index()},
              ranks_list(tensor.ranks()),
              r.numel(),
              r.nan(),
              r.pos_inf(),
              r.neg_inf(),
              r.zero(),
              present(r.has_min(), r.min()),
              present(r.has_max(), r.max()),
              present(r.has_absmin_nonzero(), r.absmin_nonzero()),
              present(r.has_absmax(), r.absmax()),
              r.sum(),
              r.sum_sq(),
              r.subnormal(),
              r.flushed(),
              r.over(),
              r.measured_under_scale() == 0 ? 1.0 : r.measured_under_scale(),
              std::string(dtype_word(r.target())),
              present(r.has_headroom(), r.headroom()),
              std::uint64_t{r.micro_batches()},
              r.has_first_bad_micro() ? Field(std::uint64_t{r.first_bad_micro()}) : Field()});
}

std::uint64_t export_tensors(Client& client, const ExportOptions& options, bool json, const Screen& screen,
                             std::uint64_t& attempts) {
  RowWriter rows(screen.out,
                 {"segment",
                  "attempt",
                  "step",
                  "tensor",
                  "role",
                  "dtype",
                  "forward_index",
                  "ranks",
                  "numel",
                  "nan",
                  "pos_inf",
                  "neg_inf",
                  "zero",
                  "min",
                  "max",
                  "absmin_nonzero",
                  "absmax",
                  "sum",
                  "sum_sq",
                  "subnormal",
                  "flushed",
                  "over",
                  "measured_under_scale",
                  "target",
                  "headroom",
                  "micro_batches",
                  "first_bad_micro"},
                 json);
  const auto role = parse_role(options.role);
  attempts = walk_attempts(client, {options.run, options.range, options.rank, true, "exporting"}, screen,
                           [&](const v1::GetAttemptResponse& page, bool) {
                             for (const auto& tensor : page.tensors()) {
                               if (role != v1::ROLE_UNSPECIFIED && tensor.info().role() != role) continue;
                               if (tensor.info().name().find(options.name) == std::string::npos) continue;
                               write_tensor(rows, page.attempt(), tensor);
                             }
                             check(screen);
                             return true;
                           });
  return rows.rows();
}

std::string_view outcome_of(const v1::ScalerPoint& point) {
  return point.partial() > 0 ? "partial" : point.skipped() > 0 ? "skipped" : point.applied() > 0 ? "applied" : "unknown";
}

std::uint64_t export_attempts(Client& client, const ExportOptions& options, bool json, const Screen& screen,
                              std::uint64_t& attempts) {
  RowWriter rows(screen.out,
                 {"segment", "attempt", "step", "time_ms", "ranks", "loss", "lr", "grad_norm", "scaler", "outcome",
                  "scale_before", "scale_after", "growth_tracker"},
                 json);
  attempts = walk_attempts(
      client, {options.run, options.range, options.rank, false, "exporting"}, screen,
      [&](const v1::GetAttemptResponse& page, bool) {
        const auto& a = page.attempt();
        std::vector<Field> row{std::uint64_t{a.segment()},
                               a.attempt(),
                               a.step(),
                               a.time_ms(),
                               ranks_list(a.ranks()),
                               present(a.has_loss(), a.loss()),
                               present(a.has_lr(), a.lr()),
                               present(a.has_grad_norm(), a.grad_norm())};
        const auto common = row.size();
        if (a.scalers().empty()) {
          row.resize(common + 5);
          rows.write(row);
        }
        for (const auto& s : a.scalers()) {
          row.resize(common);
          row.insert(row.end(), {std::uint64_t{s.scaler()}, std::string(outcome_of(s)),
                                 present(s.has_scale_before(), s.scale_before()), present(s.has_scale_after(), s.scale_after()),
                                 s.has_growth_tracker() ? Field(s.growth_tracker()) : Field()});
          rows.write(row);
        }
        check(screen);
        return true;
      });
  return rows.rows();
}

std::uint64_t export_findings(Client& client, const ExportOptions& options, bool json, const Screen& screen) {
  v1::GetRunRequest request;
  request.set_run(options.run);
  const auto run = client.get_run(request);
  RowWriter rows(screen.out,
                 {"id", "rule", "severity", "subject", "segment", "first_attempt", "last_attempt", "first_step", "last_step",
                  "open", "blamed", "blamed_role", "where", "summary"},
                 json);
  for (const auto& f : run.findings()) {
    if (options.range.segment != 0 && f.segment() != options.range.segment) continue;
    rows.write({f.id(), f.rule(), std::string(severity_word(severity_of(f.severity()))), f.subject(),
                std::uint64_t{f.segment()}, f.first_attempt(), f.last_attempt(), f.first_step(), f.last_step(), f.open(),
                f.blame().tensor(),
                f.blame().tensor().empty() ? std::string() : std::string(role_word(static_cast<Role>(f.blame().role()))),
                f.blame().where(), f.summary()});
  }
  return rows.rows();
}

}  // namespace

void export_run(Client& client, const ExportOptions& options, const Screen& screen) {
  const bool json = screen.json || options.format == "jsonl";
  std::uint64_t attempts = 0;
  std::uint64_t rows = 0;
  if (options.what == "findings") {
    rows = export_findings(client, options, json, screen);
  } else if (options.what == "attempts") {
    rows = export_attempts(client, options, json, screen, attempts);
  } else {
    rows = export_tensors(client, options, json, screen, attempts);
  }
  screen.out << std::flush;
  check(screen);
  if (screen.err == nullptr) return;
  *screen.err << text::plural(rows, "row") << (options.what == "findings" ? "" : " of " + text::plural(attempts, "attempt"))
              << '\n';
}

}  // namespace scalewatch::cli
