#include "server/ingest/ingest_service.h"

#include "scalewatch/v1/ingest.grpc.pb.h"
#include "server/ingest/stream_reactor.h"

namespace scalewatch::ingest {

namespace {

// Raw bytes in and out: a message that does not parse gets an answer that says so, where generated code only drops the call.
class IngestService final : public v1::Ingest::WithRawCallbackMethod_Stream<v1::Ingest::Service> {
 public:
  explicit IngestService(engine::Engine& engine) : engine_(engine) {}

  using WithRawCallbackMethod_Stream::Stream;  // the synchronous form, which the base answers with an error
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Stream(grpc::CallbackServerContext* /*context*/) override {
    return StreamReactor::start(engine_);
  }

 private:
  engine::Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_ingest_service(engine::Engine& engine) {
  return std::make_unique<IngestService>(engine);
}

}  // namespace scalewatch::ingest
