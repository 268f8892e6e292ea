#include "server/auth/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <chrono>
#include <cstdio>

namespace scalewatch::auth {

namespace {

constexpr std::chrono::hours kSoon{14 * 24};

// OpenSSL's own words for what failed last.
std::string why() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "it cannot be read" : reason;
}

// Keys with a password are refused; without this OpenSSL would ask for it on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) {
  return 0;
}

[[noreturn]] void fail(const char* key, const std::string& file) {
  throw TlsError(std::string(key) + ": " + file + ": " + why());
}

}  // namespace

void FreeContext::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

TlsContext make_server_context(const TlsFiles& files) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  if (!context) throw TlsError("OpenSSL makes no context: " + why());
  SSL_CTX* const raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_default_passwd_cb(raw, no_password);
  if (SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) != 1) fail("tls.certificate", files.certificate);
  // A key that is of another certificate is refused here too.
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1) fail("tls.key", files.key);
  if (SSL_CTX_check_private_key(raw) != 1) fail("tls.key", files.key);
  if (files.client_ca.empty()) return context;
  if (SSL_CTX_load_verify_file(raw, files.client_ca.c_str()) != 1) fail("tls.client_ca", files.client_ca);
  SSL_CTX_set_client_CA_list(raw, SSL_load_client_CA_file(files.client_ca.c_str()));
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  static constexpr unsigned char kSessions[] = "scalewatchd";
  SSL_CTX_set_session_id_context(raw, kSessions, sizeof kSessions - 1);
  return context;
}

std::vector<std::string> tls_warnings(const TlsFiles& files) {
  std::vector<std::string> out;
  struct stat status {};
  if (::stat(files.key.c_str(), &status) == 0 && (status.st_mode & S_IROTH) != 0) {
    out.push_back("tls.key: " + files.key + " may be read by everybody on this machine: chmod 600 it");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(files.certificate.c_str(), "re"), std::fclose);
  if (!file) return out;
  const std::unique_ptr<X509, void (*)(X509*)> certificate(PEM_read_X509(file.get(), nullptr, no_password, nullptr), X509_free);
  if (!certificate) {
    ERR_clear_error();
    return out;
  }
  const ASN1_TIME* const end = X509_get0_notAfter(certificate.get());
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, end) != 1) return out;
  if (days < 0 || seconds < 0) {
    out.push_back("tls.certificate: " + files.certificate + " has expired: clients refuse it");
  } else if (std::chrono::hours(days * 24) < kSoon) {
    out.push_back("tls.certificate: " + files.certificate + " expires in " + std::to_string(days) + " days");
  }
  return out;
}

std::vector<FileStamp> stamps_of(const TlsFiles& files) {
  return {FileStamp::of(files.certificate), FileStamp::of(files.key), FileStamp::of(files.client_ca)};
}

}  // namespace scalewatch::auth
