// Where runs begin, go on from a checkpoint and end, in the words that trainers use. These words alone show no training.
#include "server/logimport/formats/formats.h"
#include "server/logimport/template_format.h"

namespace scalewatch::logimport {
namespace {

using Kind = Reading::Kind;

constexpr LineRule mark(std::string_view text, Kind kind) {
  return {.text = text, .kind = kind, .place = Place::kSpoken};
}

constexpr LineRule kRules[] = {
    mark("***** Running training *****", Kind::kRunStart),
    mark("***** train metrics *****", Kind::kEnd),
    mark("Continuing training from global step {step}", Kind::kCheckpoint),
    mark("Continuing training from checkpoint", Kind::kCheckpoint),
    mark("Resuming training from checkpoint", Kind::kCheckpoint),
    mark("Resuming training from ", Kind::kCheckpoint),
    mark("Resumed training from ", Kind::kCheckpoint),
    mark("Resuming from checkpoint", Kind::kCheckpoint),
    mark("Resumed from checkpoint", Kind::kCheckpoint),
    mark("resumed from epoch {epoch}", Kind::kCheckpoint),
    mark("resumed epoch: {epoch}, iter: {step}", Kind::kCheckpoint),
    mark("Restored all states from the checkpoint", Kind::kCheckpoint),
    mark("Restoring states from the checkpoint path at", Kind::kCheckpoint),
    mark("=> loaded checkpoint '{...}' (epoch {epoch})", Kind::kCheckpoint),
    mark("Loaded checkpoint '{...}' from iteration {step}", Kind::kCheckpoint),
    mark("Loaded checkpoint at epoch {epoch}", Kind::kCheckpoint),
    mark("auto resuming from ", Kind::kCheckpoint),
    mark("Training completed. Do not forget to share your model", Kind::kEnd),
    mark("`Trainer.fit` stopped: ", Kind::kEnd),
    mark("Training finished", Kind::kEnd),
    mark("Training complete", Kind::kEnd),
    mark("done training in {_} seconds", Kind::kEnd),
};

}  // namespace

std::unique_ptr<Format> make_run_marks() {
  return std::make_unique<TemplateFormat>("run_marks", kRules);
}

}  // namespace scalewatch::logimport
