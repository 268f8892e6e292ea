#include "server/cli/checklist_facts.h"

#include <fstream>
#include <utility>
#include <variant>
#include <vector>

#include "server/cli/attempts.h"
#include "server/cli/convert.h"
#include "server/cli/paging.h"
#include "server/cli/screen.h"
#include "server/logimport/diagnose.h"

namespace scalewatch::cli {

namespace {

constexpr std::uint32_t kMaxTensors = 20'000;

template <class Optional>
std::optional<double> present(bool has, Optional value) {
  return has ? std::optional<double>(value) : std::nullopt;
}

}  // namespace

domain::ChecklistFacts checklist_facts(Client& client, const v1::GetRunResponse& run) {
  domain::ChecklistFacts facts;
  const auto& summary = run.run();
  facts.compute_dtype = static_cast<DType>(summary.compute_dtype());
  facts.attempts = summary.attempts();
  facts.applied = summary.applied();
  facts.skipped = summary.skipped();
  facts.segments = summary.segment();
  facts.loss = summary.has_loss();
  for (const auto& [key, value] : summary.labels()) facts.labels[key] = value;
  for (const auto& scaler : run.scalers()) {
    facts.scalers.push_back(
        {scaler.name(), scaler.policy(), {scaler.parameters().begin(), scaler.parameters().end()}, scaler.growths()});
  }
  for (const auto& optimizer : run.optimizers()) {
    domain::ChecklistOptimizer out;
    out.class_name = optimizer.class_name();
    out.eps = present(optimizer.has_eps(), optimizer.eps());
    out.weight_decay = present(optimizer.has_weight_decay(), optimizer.weight_decay());
    for (const auto dtype : optimizer.state_dtypes()) out.state_dtypes.push_back(static_cast<DType>(dtype));
    facts.optimizers.push_back(std::move(out));
  }
  for (const auto& finding : run.findings()) {
    if (finding.segment() == summary.segment()) facts.findings.push_back(from_proto(finding));
  }
  v1::ListTensorsRequest request;
  request.set_run(summary.run_uid());
  const auto tensors = read_pages<v1::ListTensorsResponse>(
      request, kMaxTensors, [&](const v1::ListTensorsRequest& r) { return client.list_tensors(r); },
      [](v1::ListTensorsResponse& r) { return r.mutable_tensors(); });
  for (const auto& tensor : tensors.tensors()) {
    facts.tensors.push_back({tensor.info().name(), static_cast<Role>(tensor.info().role()),
                             static_cast<DType>(tensor.info().dtype()), tensor.has_last() ? tensor.last().micro_batches() : 0});
  }
  if (const auto newest = newest_attempt(client, summary.run_uid(), summary.segment())) {
    facts.grad_norm = newest->has_grad_norm();
    facts.loss = facts.loss || newest->has_loss();
  }
  return facts;
}

domain::ChecklistFacts checklist_facts(const std::string& file) {
  domain::ChecklistFacts facts;
  facts.from_log = true;
  std::ifstream in(file, std::ios::binary);
  if (!in) throw CallError(Screen::name(file) + " can't be read", kExitNothing);
  logimport::LogDoctor doctor({}, {}, [&](const domain::Input& input) {
    if (const auto* joined = std::get_if<domain::RankJoined>(&input)) {
      facts.compute_dtype = joined->compute_dtype;
      facts.scalers.clear();
      for (const auto& scaler : joined->scalers) facts.scalers.push_back({scaler.name, scaler.policy, scaler.parameters, 0});
    } else if (const auto* attempt = std::get_if<domain::AttemptDigest>(&input)) {
      facts.loss = facts.loss || attempt->loss.has_value();
      facts.grad_norm = facts.grad_norm || attempt->grad_norm.has_value();
    }
  });
  doctor.begin_file();
  std::vector<char> chunk(std::size_t{1} << 20U);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), in.gcount() > 0) {
    doctor.feed({chunk.data(), static_cast<std::size_t>(in.gcount())});
  }
  doctor.end_file();
  doctor.finish();
  auto diagnosis = doctor.diagnosis();
  if (doctor.summary().readings == 0 || (diagnosis.facts.attempts == 0 && diagnosis.findings.empty())) {
    throw CallError(
        "nothing in " + Screen::name(file) + " tells of a training run: `scalewatch doctor` says what was looked for",
        kExitNothing);
  }
  facts.attempts = diagnosis.facts.attempts;
  facts.applied = diagnosis.facts.applied;
  facts.skipped = diagnosis.facts.skipped;
  facts.segments = doctor.runs();
  facts.findings = std::move(diagnosis.findings);
  return facts;
}

}  // namespace scalewatch::cli
