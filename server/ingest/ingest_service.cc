#include "server/ingest/ingest_service.h"

#include <utility>

#include "scalewatch/v1/ingest.grpc.pb.h"
#include "server/auth/grpc_call.h"
#include "server/ingest/refused_reactor.h"
#include "server/ingest/stream_reactor.h"

namespace scalewatch::ingest {

namespace {

// Raw bytes in and out: a message that does not parse gets an answer that says so, where generated code only drops the call.
class IngestService final : public v1::Ingest::WithRawCallbackMethod_Stream<v1::Ingest::Service> {
 public:
  IngestService(engine::Engine& engine, auth::Gate* gate) : engine_(engine), gate_(gate) {}

  using WithRawCallbackMethod_Stream::Stream;  // the synchronous form, which the base answers with an error
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Stream(grpc::CallbackServerContext* context) override {
    if (gate_ == nullptr) return StreamReactor::start(engine_);
    auth::Admission admission = auth::admit(*gate_, *context);
    if (!admission.ok()) {
      const engine::Status& status = admission.status;
      return new RefusedReactor(status.code == engine::Status::kUnauthenticated
                                    ? denied(status.message, grpc::StatusCode::UNAUTHENTICATED)
                                    : try_later(status.message));
    }
    auth::Permit place = gate_->take_stream();
    if (!place) gate_->refused(auth::Refusal::kStreams);
    if (!place) return new RefusedReactor(try_later("all streams that this server may have are open: limits.max_streams"));
    return StreamReactor::start(engine_, *gate_, std::move(admission.caller), std::move(place));
  }

 private:
  engine::Engine& engine_;
  auth::Gate* const gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_ingest_service(engine::Engine& engine, auth::Gate* gate) {
  return std::make_unique<IngestService>(engine, gate);
}

}  // namespace scalewatch::ingest
