// SPDX-License-Identifier: Apache-2.0
//
// TCP with TLS.
//
// An SSL object is not safe for two threads (openssl-threads(7)). So the socket does not block, and
// a lock is held for each attempt to read or write, but not while a thread waits for the socket.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <mutex>

#include "remote/transport/stream.h"

namespace ckpt::remote {

struct FreeSsl {
  void operator()(SSL *ssl) const { ::SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

class TlsStream final : public SocketStream {
 public:
  // `ssl` is bound to the socket and has made its handshake.
  TlsStream(UniqueFd socket, SslPtr ssl) : SocketStream(std::move(socket)), ssl_(std::move(ssl)) {}

  Result<size_t> read_some(std::span<std::byte> into) override;
  bool is_plain() const override { return false; }

 private:
  Result<size_t> write_some(ByteView data) override;

  SslPtr ssl_;
  std::mutex ssl_mutex_;
};

}  // namespace ckpt::remote
