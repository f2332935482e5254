// SPDX-License-Identifier: Apache-2.0
//
// A connection as a stream of bytes: a UNIX socket, or TCP with TLS. One thread may read while
// another one writes.
//
// An SSL object is not safe for two threads (openssl-threads(7)). So the socket does not block,
// and a lock is held for each attempt to read or write, but not while a thread waits for the
// socket.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::remote {

struct FreeSsl {
  void operator()(SSL *ssl) const { ::SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;

class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // `ssl` is bound to the socket and has made its handshake; null: the bytes go as they are.
  Stream(UniqueFd socket, SslPtr ssl);

  // At least one byte; 0: the peer hung up.
  Result<size_t> read_some(std::span<std::byte> into);
  Result<> write(ByteView data);
  // read_some() fails once this moment has passed; no value: it waits for ever.
  void set_deadline(std::optional<Clock::time_point> deadline) { deadline_ = deadline; }
  // Wakes a thread that reads or writes. Its call then fails.
  void shut_down();
  int descriptor() const { return socket_.get(); }

 private:
  Result<size_t> read_plain(std::span<std::byte> into);
  Result<size_t> write_some(ByteView data);
  Result<> wait(short events, std::optional<Clock::time_point> deadline);

  UniqueFd socket_;
  SslPtr ssl_;
  std::mutex ssl_mutex_;
  std::optional<Clock::time_point> deadline_;
};

// Waits until the socket is ready, or the deadline has passed, which is an error.
Result<> wait_for_socket(int socket, short events,
                         std::optional<std::chrono::steady_clock::time_point> deadline);

}  // namespace ckpt::remote
