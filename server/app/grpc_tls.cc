#include "server/app/grpc_tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

namespace scalewatch::app {
namespace {

class Credentials final : public grpc::ServerCredentials {
 public:
  explicit Credentials(std::shared_ptr<auth::Certificates> certificates) : certificates_(std::move(certificates)) {
    const auto asked = certificates_->asks_clients() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(asked, &Credentials::fetch, this));
  }
  ~Credentials() override { grpc_server_credentials_release(credentials_); }
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC asks before each handshake, one at a time.
  static grpc_ssl_certificate_config_reload_status fetch(void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<Credentials*>(self);
    const auto set = credentials.certificates_->now();
    if (set->number == credentials.served_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    credentials.served_ = set->number;
    const grpc_ssl_pem_key_cert_pair pair{set->key.c_str(), set->certificate.c_str()};
    // gRPC insists on authorities, also where it asks for no certificate that they could vouch for.
    const std::string& authorities = set->client_ca.empty() ? set->certificate : set->client_ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    return *config == nullptr ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<auth::Certificates> certificates_;
  std::uint64_t served_ = 0;  // number of the set that gRPC has
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> tls_credentials(std::shared_ptr<auth::Certificates> certificates) {
  return std::make_shared<Credentials>(std::move(certificates));
}

}  // namespace scalewatch::app
