// How a client shows who it is, and whom it takes for the server.
#pragma once

#include <string>

namespace scalewatch::client {

// As it was told: names of files, which are read at every connect, so that what is renewed there is taken.
struct Credentials {
  bool tls = false;
  std::string token;       // in place of token_file
  std::string token_file;  // empty: none
  std::string ca_file;     // empty: the system's authorities
  std::string cert_file;   // empty: none
  std::string key_file;
};

// What a connection is made with.
struct Security {
  bool tls = false;
  std::string token;  // empty: none
  std::string authorities;
  std::string certificate;
  std::string key;
};

// Reads the files. What is wrong goes to `fault`, one line without secrets; empty when nothing is.
[[nodiscard]] Security read_security(const Credentials& credentials, std::string& fault);

// An address of this machine: host:port, [v6]:port or unix:path. Only there does a token go without TLS.
[[nodiscard]] bool on_this_machine(const std::string& server);

// Takes https:// or tls:// from before the servers of a list with commas; true when one had it.
bool take_schemes(std::string& servers);

}  // namespace scalewatch::client
