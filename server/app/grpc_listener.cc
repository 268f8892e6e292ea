#include "server/app/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "server/app/grpc_tls.h"
#include "server/app/log.h"

namespace scalewatch::app {
namespace {

// gRPC tells why it cannot listen to its log only, so the address is tried first.
void probe(const Address& address) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::acceptor acceptor(io);
  const tcp::endpoint endpoint(boost::asio::ip::make_address(address.host), address.port);
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1, error);
  if (error) throw std::runtime_error("cannot listen for gRPC on " + address.text() + ": " + error.message());
}

// Bytes of one stream. HTTP/2's window of the whole connection is not raised by it and stays at gRPC's 64 KiB and a message, so
// a connection carries about 100 kB each time to and fro: 10 MB/s at 10 ms.
constexpr int kStreamWindow = 1 << 20;

constexpr int kPollers = 2;  // threads a core that wait for calls

// gRPC's own messages are about its insides; they go where somebody who looks for them finds them.
void log_grpc(gpr_log_func_args* args) {
  log::debug(args->message, {{"from", "grpc"}});
}

constexpr std::chrono::milliseconds kHandshake{10'000};
constexpr std::chrono::milliseconds kIdle{
    600'000};  // a connection without a call is closed; clients make another when they call

int to_int(std::chrono::milliseconds duration) {
  return static_cast<int>(duration.count());
}

}  // namespace

GrpcListener::GrpcListener(const Address& address, const GrpcOptions& options, std::uint32_t max_message_bytes,
                           const GrpcSecurity& security, std::vector<std::unique_ptr<grpc::Service>> services, CallEnded ended)
    : services_(std::move(services)),
      credentials_(security.certificates ? tls_credentials(security.certificates) : grpc::InsecureServerCredentials()) {
  gpr_set_log_function(log_grpc);
  probe(address);
  grpc::EnableDefaultHealthCheckService(true);
  // Its streams hold a thread each, and know no tokens.
  if (!security.tokens) grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ResourceQuota quota("scalewatchd");
  quota.Resize(options.memory);
  quota.SetMaxThreads(options.max_threads);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  // A few bytes can be gigabytes once they are unpacked, which gRPC does before it looks at their size: our clients send
  // nothing compressed.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Otherwise a second server would share the port silently.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.max_streams_per_connection));
  // What a stream may have on its way to a server that has no room for it yet. gRPC would let it grow with the connection's
  // speed, to megabytes that would all wait before a new alert; its clients then see at once that the server is behind.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindow);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, to_int(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, to_int(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, to_int(options.min_ping_interval));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, to_int(kIdle));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, to_int(kHandshake));
  // Threads that answer stay for the next call: each that ends takes its part of the allocator's memory with it.
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, kPollers);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, kPollers * 2);
  int port = 0;
  builder.AddListeningPort(address.text(), credentials_, &port);
  for (const auto& service : services_) builder.RegisterService(service.get());
  builder.experimental().SetInterceptorCreators(meter_calls(std::move(ended)));
  server_ = builder.BuildAndStart();
  if (!server_ || port <= 0) throw std::runtime_error("cannot listen for gRPC on " + address.text());
  port_ = static_cast<std::uint16_t>(port);
}

GrpcListener::~GrpcListener() {
  stop();
}

void GrpcListener::say_leaving() {
  if (auto* health = server_ ? server_->GetHealthCheckService() : nullptr) health->SetServingStatus(false);
}

void GrpcListener::stop() {
  if (!server_) return;
  if (auto* health = server_->GetHealthCheckService()) health->Shutdown();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
  server_.reset();
}

}  // namespace scalewatch::app
