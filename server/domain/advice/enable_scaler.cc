// fp16 without a scaler.
#include "server/domain/advice/advice.h"

namespace scalewatch::domain {

std::optional<Advice> advise_enable_scaler(const AdviceContext& context) {
  if (!context.rule("MissingScaler")) return std::nullopt;
  return Advice{
      "enable_scaler",
      "use a loss scaler with fp16: scaler = torch.amp.GradScaler(\"cuda\"), then scaler.scale(loss).backward(), "
      "scaler.step(optimizer), scaler.update(); or train in bf16 (compute capability 8.0 and later), which needs none",
      0.95};
}

}  // namespace scalewatch::domain
