// The files of a TLS server, read and checked by OpenSSL.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "server/auth/file_stamp.h"

struct ssl_ctx_st;

namespace scalewatch::auth {

struct TlsFiles {
  std::string certificate;  // PEM: the server's own, then those that lead to its authority; empty: no TLS
  std::string key;          // PEM, without a password
  std::string client_ca;    // PEM: clients must show a certificate of one of these authorities; empty: none is asked for

  [[nodiscard]] bool on() const { return !certificate.empty(); }
  bool operator==(const TlsFiles&) const = default;
};

// One line that names the file and the cause.
class TlsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct FreeContext {
  void operator()(ssl_ctx_st* context) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, FreeContext>;

// For TLS 1.2 and later. Throws TlsError: a file that can't be read or is not what it should be, a key of another certificate.
TlsContext make_server_context(const TlsFiles& files);

// What works and still deserves a word: a certificate that has expired or does so within two weeks, a key that all may read.
std::vector<std::string> tls_warnings(const TlsFiles& files);

// Of all files together: whether any changed.
std::vector<FileStamp> stamps_of(const TlsFiles& files);

}  // namespace scalewatch::auth
