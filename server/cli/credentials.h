// How the command shows who it is, and whom it takes for the server.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace grpc {
class Channel;
class ChannelArguments;
}  // namespace grpc

namespace scalewatch::cli {

struct Credentials {
  std::string token_file;  // holds a token; empty: none
  std::string token;       // in place of it
  std::string ca_file;     // PEM: authorities that a server's certificate may be of; empty: the system's
  std::string cert_file;   // PEM: this side's own certificate, and
  std::string key_file;    // its key; empty: none
};

// What was said can't be used: a file, or a token that would go over the network in the clear. One line, safe to print.
class CredentialsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// HOST:PORT of "https://HOST:PORT" or "tls://HOST:PORT", else as it is.
std::string without_scheme(const std::string& server);
// A scheme, or anything that only TLS has a use for, asks for it.
bool wants_tls(const std::string& server, const Credentials& credentials);

// Every call over the channel shows the token. Throws CredentialsError.
std::shared_ptr<grpc::Channel> make_channel(const std::string& server, const Credentials& credentials,
                                            const grpc::ChannelArguments& arguments);

}  // namespace scalewatch::cli
