#include "server/cli/credentials.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "server/names/escape.h"

namespace scalewatch::cli {

namespace {

namespace ge = grpc::experimental;

constexpr std::streamsize kMaxFileBytes = 1 << 20;
// Where Debian's and Red Hat's systems keep the authorities that they trust.
constexpr const char* kSystemAuthorities[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"};

std::string contents(const std::string& option, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(kMaxFileBytes), '\0');
  in.read(text.data(), kMaxFileBytes);
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.empty()) throw CredentialsError(fmt::format("{}: {} cannot be read, or is empty", option, names::escape(path)));
  return text;
}

std::string token_of(const Credentials& credentials) {
  std::string token = credentials.token;
  if (token.empty() && !credentials.token_file.empty()) token = contents("--token-file", credentials.token_file);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  // Metadata takes no others; and what is no token is not sent to anybody.
  if (!token.empty() &&
      (!token.starts_with("swt_") || token.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567_") != std::string::npos)) {
    throw CredentialsError(credentials.token.empty()
                               ? fmt::format("--token-file: {} holds no token", names::escape(credentials.token_file))
                               : "SCALEWATCH_TOKEN is no token");
  }
  return token;
}

bool on_this_machine(const std::string& server) {
  for (const std::string_view prefix : {"127.", "localhost:", "[::1]:"}) {
    if (server.starts_with(prefix)) return true;
  }
  return false;
}

std::string system_authorities() {
  for (const char* const path : kSystemAuthorities) {
    std::ifstream in(path, std::ios::binary);
    if (in) return {std::istreambuf_iterator<char>(in), {}};
  }
  return {};  // gRPC's own, then
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Credentials& credentials) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = credentials.ca_file.empty() ? system_authorities() : contents("--ca-file", credentials.ca_file);
  if (credentials.cert_file.empty() != credentials.key_file.empty()) {
    throw CredentialsError("--cert-file and --key-file go together: one of them is missing");
  }
  if (!credentials.cert_file.empty()) {
    options.pem_cert_chain = contents("--cert-file", credentials.cert_file);
    options.pem_private_key = contents("--key-file", credentials.key_file);
  }
  return grpc::SslCredentials(options);
}

// Adds the token to what a call begins with.
class ShowToken final : public ge::Interceptor {
 public:
  explicit ShowToken(const std::string& header) : header_(header) {}
  void Intercept(ge::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(ge::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", header_);
    }
    methods->Proceed();
  }

 private:
  const std::string& header_;  // the factory's, which the channel keeps
};

class ShowTokens final : public ge::ClientInterceptorFactoryInterface {
 public:
  explicit ShowTokens(const std::string& token) : header_("Bearer " + token) {}
  ge::Interceptor* CreateClientInterceptor(ge::ClientRpcInfo* /*info*/) override { return new ShowToken(header_); }

 private:
  const std::string header_;
};

}  // namespace

std::string without_scheme(const std::string& server) {
  for (const std::string_view scheme : {"https://", "tls://"}) {
    if (server.starts_with(scheme)) return server.substr(scheme.size());
  }
  return server;
}

bool wants_tls(const std::string& server, const Credentials& credentials) {
  return without_scheme(server) != server || !credentials.ca_file.empty() || !credentials.cert_file.empty() ||
         !credentials.key_file.empty();
}

std::shared_ptr<grpc::Channel> make_channel(const std::string& server, const Credentials& credentials,
                                            const grpc::ChannelArguments& arguments) {
  const std::string where = without_scheme(server);
  const bool tls = wants_tls(server, credentials);
  const std::string token = token_of(credentials);
  if (!token.empty() && !tls && !on_this_machine(where)) {
    throw CredentialsError(
        fmt::format("a token is not sent to {} without encryption, where others could read it: use "
                    "https://{} as the server, or --ca-file",
                    names::escape(where), names::escape(where)));
  }
  std::vector<std::unique_ptr<ge::ClientInterceptorFactoryInterface>> interceptors;
  if (!token.empty()) interceptors.push_back(std::make_unique<ShowTokens>(token));
  return ge::CreateCustomChannelWithInterceptors(
      where, tls ? channel_credentials(credentials) : grpc::InsecureChannelCredentials(), arguments, std::move(interceptors));
}

}  // namespace scalewatch::cli
