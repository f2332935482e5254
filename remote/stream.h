// SPDX-License-Identifier: Apache-2.0
//
// A connection as a stream of bytes: a UNIX socket, or TCP with TLS (tls_stream.h). One thread may
// read while another one writes.
#pragma once

#include <chrono>
#include <optional>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::remote {

class Stream {
 public:
  using Clock = std::chrono::steady_clock;

  // The bytes go through the socket as they are. It does not block from now on.
  explicit Stream(UniqueFd socket);
  virtual ~Stream() = default;
  Stream(const Stream &) = delete;

  // At least one byte; 0: the peer hung up.
  virtual Result<size_t> read_some(std::span<std::byte> into);
  Result<> write(ByteView data);
  // read_some() fails once this moment has passed; no value: it waits for ever.
  void set_deadline(std::optional<Clock::time_point> deadline) { deadline_ = deadline; }
  // Wakes a thread that reads or writes. Its call then fails.
  void shut_down();
  int descriptor() const { return socket_.get(); }
  // Whether another process may go on with the socket.
  virtual bool is_plain() const { return true; }

 protected:
  // 0: the socket takes nothing now.
  virtual Result<size_t> write_some(ByteView data);
  Result<> wait(short events, std::optional<Clock::time_point> deadline);
  std::optional<Clock::time_point> deadline() const { return deadline_; }

 private:
  UniqueFd socket_;
  std::optional<Clock::time_point> deadline_;
};

// Waits until the socket is ready, or the deadline has passed, which is an error.
Result<> wait_for_socket(int socket, short events,
                         std::optional<std::chrono::steady_clock::time_point> deadline);

}  // namespace ckpt::remote
