// The Ingest service: gRPC streams on one side, engine streams on the other. All checks of content are the engine's; what
// does not parse ends here.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "server/auth/gate.h"
#include "server/engine/engine.h"

namespace scalewatch::ingest {

// The engine and the gate must outlive the service, and the service the server that it is registered with. `gate`: lets streams
// in by their tokens and bounds them; null: all are let in.
std::unique_ptr<grpc::Service> make_ingest_service(engine::Engine& engine, auth::Gate* gate = nullptr);

}  // namespace scalewatch::ingest
