// gRPC's side of the server's certificates.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/auth/certificates.h"

namespace scalewatch::app {

// Credentials that take for every handshake what `certificates` then has. gRPC's own watcher of files would serve a key and a
// certificate that do not belong together while they are being replaced. They must outlive the server that was built with them,
// which gRPC does not see to: a handshake asks them.
std::shared_ptr<grpc::ServerCredentials> tls_credentials(std::shared_ptr<auth::Certificates> certificates);

}  // namespace scalewatch::app
