#include "server/history/optimizers_reader.h"
#include "server/history/seal.h"

#include "scalewatch/v1/ingest.pb.h"

namespace scalewatch::history {

void read_optimizers(Connection& connection, std::int64_t run, std::uint32_t segment, v1::GetRunResponse& response) {
  Query query(connection, "SELECT hello FROM streams WHERE run = ? AND segment = ? ORDER BY rank, ord DESC LIMIT 1", run,
              segment);
  v1::Hello hello;
  if (!query.step() || !parse_sealed(query, 0, hello)) return;
  for (const auto& from : hello.optimizers()) {
    auto& to = *response.add_optimizers();
    to.set_name(from.name());
    to.set_class_name(from.class_name());
    to.set_scaler(from.scaler());
    if (from.has_lr()) to.set_lr(from.lr());
    if (from.has_beta1()) to.set_beta1(from.beta1());
    if (from.has_beta2()) to.set_beta2(from.beta2());
    if (from.has_eps()) to.set_eps(from.eps());
    if (from.has_weight_decay()) to.set_weight_decay(from.weight_decay());
    *to.mutable_state_dtypes() = from.state_dtypes();
    to.set_fused(from.fused());
  }
}

}  // namespace scalewatch::history
