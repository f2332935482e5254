// SPDX-License-Identifier: Apache-2.0
//
// A TCP connection between the coordinator of a job and one of its members.
//
// Both sides have the job's key, which lies in the job's folder. Each side sends 32
// random bytes first. Every message is sealed with the key (XChaCha20-Poly1305) and bound to these
// 64 bytes, its direction and its number, so without the key no message can be read,
// forged, repeated, exchanged or left out. A peer without the key gets no further than its first
// message, which has at most 4 KiB.
#pragma once

#include <array>
#include <chrono>
#include <functional>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "storage/format/key.h"

namespace ckpt::tools {

class Channel {
 public:
  enum class Side : u8 { Coordinator, Member };
  struct Frame {
    u16 type = 0;
    Bytes body;
    Reader reader() const { return Reader(body); }
  };

  // The greetings. `socket` is connected.
  static Result<Channel> open(UniqueFd socket, const storage::Key &key, Side side);
  // The member's side of a channel whose peer has shown the key already (opening.h). `state`: what
  // Opening::state() returned.
  static Result<Channel> resume(UniqueFd socket, const storage::Key &key, ByteView state);

  Result<> send(u16 type, ByteView body = {});
  // Fails if nothing whole and genuine has come by `deadline`, or the peer has hung up.
  Result<Frame> receive(Clock::time_point deadline);

  int descriptor() const { return socket_.get(); }
  // Wakes a receive() in another thread, which then fails.
  void shut_down() const;

 private:
  friend class Opening;
  static constexpr size_t kGreetingBytes = 40;
  static constexpr size_t kMaxFirstFrame = 4 << 10;  // of a peer that has not shown the key yet
  Channel(UniqueFd socket, const storage::Key &key, Side side)
      : socket_(std::move(socket)), key_(key), side_(side) {}
  Bytes context(Side sender, u64 number) const;
  static Result<> begin_greeting(std::span<std::byte> into);
  static bool is_greeting(ByteView bytes);
  Result<> read(std::span<std::byte> into, Clock::time_point deadline);

  UniqueFd socket_;
  storage::Key key_;
  Side side_;
  std::array<std::byte, 2 * kGreetingBytes> session_{};
  Bytes ahead_;  // received already
  u64 sent_ = 0, received_ = 0;
};

// What every socket of a job has: it notices after about 20 s that its peer's machine has failed.
void set_up_job_socket(int socket);

}  // namespace ckpt::tools
