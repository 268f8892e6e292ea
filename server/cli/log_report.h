// What a log tells of one attempt, as a report on the wire. The server makes the same of it again (engine/report_codec.h).
#pragma once

#include "scalewatch/v1/ingest.pb.h"
#include "server/domain/observation.h"

namespace scalewatch::cli {

// A scaler without a name, as most logs have it, is called "default".
v1::ScalerInfo to_proto(const domain::ScalerInfo& scaler);

// All but seq. Texts of logs may be anything: they are made safe, and cut to what a server takes.
v1::Report to_report(const domain::AttemptDigest& digest);

}  // namespace scalewatch::cli
