// SPDX-License-Identifier: Apache-2.0
//
// TLS 1.3 in which both sides present a certificate of the same authority (certificates.h). The
// client checks that the server's is made for a node of the name to which it connects; the server
// learns the user's name from the client's. Sessions are not resumed, so every connection is
// checked.
//
// Or TLS 1.3 without authentication, over which both sides present credentials of munge
// (munge_exchange.h). Each side names the method that it wants as the protocol above TLS (ALPN,
// RFC 7301), so that a mismatch is found before anything else.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "remote/transport/tls_stream.h"

namespace ckpt::remote {

struct FreeContext {
  void operator()(SSL_CTX *context) const { ::SSL_CTX_free(context); }
};

// What ties a message to one TLS connection: two values that its ends compute from its keys, and
// that no other connection has (keying material exporters, RFC 8446, section 7.5; as in RFC 9266,
// but one for each sender). They say nothing of other keys.
struct Binding {
  using Value = std::array<std::byte, 32>;
  Value client, server;
};

enum class Authentication { Certificates, Munge };

class Tls {
 public:
  enum class Side { Client, Server };
  struct Peer {
    std::string user;  // the name of a client's certificate
    Binding binding;   // with Authentication::Munge
  };
  // Reads ca.pem, certificate.pem and key.pem of a folder, as ckpt-devd makes it.
  static Result<Tls> load(const std::string &folder, Side side);
  // The server has a key of its own that ends with it, which the client does not check.
  static Result<Tls> unidentified(Side side);

  // The handshake on a connected socket. `node`: the name or address of the server, on its client.
  Result<std::unique_ptr<Stream>> handshake(UniqueFd socket, const std::string &node,
                                            Clock::time_point deadline, Peer *peer = nullptr) const;

 private:
  Tls(Side side, Authentication by) : side_(side), by_(by) {}
  Result<> begin();
  Result<> agree(SSL &ssl, int socket, Clock::time_point deadline) const;
  Error refusal(const SSL &ssl, int why) const;

  std::unique_ptr<SSL_CTX, FreeContext> context_;
  Side side_;
  Authentication by_;
};

// The folder with the certificate of this user, or with that of this node for root's ckpt-devd.
std::string usual_certificates(Tls::Side side);

// What has gone wrong, with what to do about it where the peer has refused our certificate or we
// its. `why`: of SSL_get_error(3).
Error tls_error(const std::string &step, const SSL &ssl, int why);

}  // namespace ckpt::remote
