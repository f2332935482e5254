// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/tls_stream.h"

#include <openssl/err.h>
#include <poll.h>

#include <cerrno>

#include "remote/transport/tls.h"

namespace ckpt::remote {

Result<size_t> TlsStream::read_some(std::span<std::byte> into) {
  for (;;) {
    size_t n = 0;
    int ok = 0, why = 0;
    bool hung_up = false;
    Error error;
    {
      std::lock_guard lock(ssl_mutex_);
      ::ERR_clear_error();
      errno = 0;
      ok = ::SSL_read_ex(ssl_.get(), into.data(), into.size(), &n);
      why = ok ? 0 : ::SSL_get_error(ssl_.get(), ok);
      // A process that is killed says no goodbye. Its node may answer what is still sent to it by a
      // reset, as for a stream without TLS.
      hung_up = (why == SSL_ERROR_SYSCALL && errno == ECONNRESET) ||
                (why == SSL_ERROR_SSL &&
                 ERR_GET_REASON(::ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
      if (!ok && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        error = tls_error("cannot receive", *ssl_, why);
    }
    if (ok) return n;
    if (why == SSL_ERROR_ZERO_RETURN || hung_up) return 0u;
    if (!error.what.empty()) return Failure(std::move(error));
    CKPT_CHECK(wait(why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN, deadline()));
  }
}

// With TLS 1.3 a write never waits for a message of the peer, so it always waits for room.
Result<size_t> TlsStream::write_some(ByteView data) {
  std::lock_guard lock(ssl_mutex_);
  ::ERR_clear_error();
  size_t n = 0;
  int ok = ::SSL_write_ex(ssl_.get(), data.data(), data.size(), &n);
  if (ok) return n;
  int why = ::SSL_get_error(ssl_.get(), ok);
  if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) return 0u;
  return Failure(tls_error("cannot send", *ssl_, why));
}

}  // namespace ckpt::remote
