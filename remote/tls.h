// SPDX-License-Identifier: Apache-2.0
//
// TLS 1.3 in which both sides show a certificate of the same authority (certificates.h). The client
// checks that the server's is made for a node of the name to which it connects; the server learns
// the user's name from the client's. Sessions are not resumed, so every connection is checked.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "remote/tls_stream.h"

namespace ckpt::remote {

struct FreeContext {
  void operator()(SSL_CTX *context) const { ::SSL_CTX_free(context); }
};

class Tls {
 public:
  enum class Side { Client, Server };
  // Reads ca.pem, certificate.pem and key.pem of a folder, as ckpt-devd makes it.
  static Result<Tls> load(const std::string &folder, Side side);

  // The handshake on a connected socket. `node`: the name or address of the server, on its client.
  Result<std::unique_ptr<Stream>> handshake(UniqueFd socket, const std::string &node,
                                            std::chrono::steady_clock::time_point deadline,
                                            std::string *user = nullptr) const;

 private:
  Tls(std::unique_ptr<SSL_CTX, FreeContext> context, Side side)
      : context_(std::move(context)), side_(side) {}

  std::unique_ptr<SSL_CTX, FreeContext> context_;
  Side side_;
};

// The folder with the certificate of this user, or with that of this node for root's ckpt-devd.
std::string usual_certificates(Tls::Side side);

// What has gone wrong, with what to do about it where the peer has refused our certificate or we
// its. `why`: of SSL_get_error(3).
Error tls_error(const std::string &step, const SSL &ssl, int why);

}  // namespace ckpt::remote
