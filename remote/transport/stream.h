// SPDX-License-Identifier: Apache-2.0
//
// A connection as a stream of bytes: a UNIX socket, or TCP with TLS (tls_stream.h). One thread may
// read while another one writes.
//
// A TCP peer is lost if it has acknowledged nothing for 20 s. One that only does not read is waited
// for: its machine answers. (TCP_USER_TIMEOUT would end both, tcp(7).)
#pragma once

#include <chrono>
#include <optional>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

struct tcp_info;  // of <linux/tcp.h> or <netinet/tcp.h>, which exclude each other

namespace ckpt::remote {

class Stream {
 public:
  virtual ~Stream() = default;

  // At least one byte; 0: the peer hung up.
  virtual Result<size_t> read_some(std::span<std::byte> into) = 0;
  virtual Result<> write(ByteView data) = 0;
  // read_some() fails once this moment has passed; no value: it waits for ever.
  virtual void set_deadline(std::optional<Clock::time_point> deadline) = 0;
  // Wakes a thread that reads or writes. Its call then fails.
  virtual void shut_down() = 0;
  virtual int descriptor() const = 0;
  // Whether another process may go on with the socket.
  virtual bool is_plain() const = 0;
};

inline constexpr std::chrono::milliseconds kSilence{20'000};

// Whether the other machine has not answered for so long, although it was asked several times.
bool is_silent(const tcp_info &state, std::chrono::milliseconds silence);

// The bytes go through the socket as they are.
class SocketStream : public Stream {
 public:
  // The socket does not block from now on. `silence`: after which a TCP peer is lost.
  explicit SocketStream(UniqueFd socket, std::chrono::milliseconds silence = kSilence);
  SocketStream(const SocketStream &) = delete;

  Result<size_t> read_some(std::span<std::byte> into) override;
  Result<> write(ByteView data) override;
  void set_deadline(std::optional<Clock::time_point> deadline) override { deadline_ = deadline; }
  void shut_down() override;
  int descriptor() const override { return socket_.get(); }
  bool is_plain() const override { return true; }

 protected:
  // 0: the socket takes nothing now.
  virtual Result<size_t> write_some(ByteView data);
  Result<> wait(short events, std::optional<Clock::time_point> deadline);
  std::optional<Clock::time_point> deadline() const { return deadline_; }

 private:
  // Of TCP: an error if its peer is lost.
  Result<> check_peer() const;

  UniqueFd socket_;
  std::chrono::milliseconds silence_;
  std::optional<Clock::time_point> deadline_;
};

// Waits until the socket is ready, or the deadline has passed, which is an error.
Result<> wait_for_socket(int socket, short events, std::optional<Clock::time_point> deadline);

}  // namespace ckpt::remote
