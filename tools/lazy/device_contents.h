// SPDX-License-Identifier: Apache-2.0
//
// The contents that the devices of one process get while it runs (ContentsArrive in
// agent/protocol.h). They come over a socket of their own to the process that has the devices:
//
//   decoding threads   decode chunks of the image into free slots, and announce them: first those
//   of
//                      regions that a command waits for, then, from load_rest() on, all others in
//                      the order of the image
//   listening thread   learns which slots are free again, what is waited for, and what was released
//
// Each chunk is compared with its checksum before it is announced. A damaged one, or a device that
// refuses contents, ends the program: `failed`.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/unix_socket.h"
#include "storage/read/image_reader.h"
#include "tools/agent_link/staging_slots.h"
#include "tools/lazy/arrival.h"

namespace ckpt::tools {

class DeviceContents {
 public:
  // The image must live as long as this object. `failed` is called once, in any thread.
  DeviceContents(const storage::ImageReader &image, Arrival &arrival,
                 std::function<void(Error)> failed)
      : image_(image), arrival_(arrival), failed_(std::move(failed)) {}
  // Hangs up: a device that has not got everything never gets it.
  ~DeviceContents();
  DeviceContents(const DeviceContents &) = delete;

  // Whether a stream of device memory can come in this way: each chunk fits into a slot.
  static bool can_send(const storage::ImageReader &image, const storage::StreamEntry &stream);
  // The process with the devices has taken these streams of the image, and has the other end of
  // `socket`. Serves what it waits for, with this many threads.
  Result<> start(UniqueFd socket, std::vector<const storage::StreamEntry *> streams,
                 unsigned threads);
  // From now on the rest is sent, too.
  void load_rest();
  // Waits until nothing is owed any more, or something has failed, and calls `waits` ten times a
  // second meanwhile.
  void wait(const std::function<void()> &waits);
  // Sends nothing more, and does not fail any more. The other side is not told.
  void stop();

 private:
  struct Region {
    const storage::StreamEntry *stream;
    size_t next = 0;  // chunk that is sent next
    u64 arrived = 0;
    bool waited_for = false, dropped = false;
    bool has_next() const { return !dropped && next < stream->chunks.size(); }
    bool over() const { return dropped || arrived == stream->size; }
  };
  struct Piece {
    u32 region = 0;
    size_t chunk = 0;  // of the stream
    u32 bytes = 0;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  std::optional<Piece> next_piece();
  Piece take_piece(u32 region);
  Result<> send(const Piece &piece, u32 slot);
  void listen();
  Result<> take(const Message &m);
  Result<> slot_is_free(u32 slot);
  Result<> wanted(u32 region);
  Result<> dropped(u32 region);
  void fail_with(Error why);
  void end();
  bool all_over() const;

  const storage::ImageReader &image_;
  Arrival &arrival_;
  const std::function<void(Error)> failed_;
  UniqueFd socket_;
  std::optional<StagingSlots> staging_;
  std::mutex send_mutex_;
  std::mutex fail_mutex_;  // held while failed_ is called; locked before mutex_
  std::mutex mutex_;       // guards what follows
  std::condition_variable changed_;
  std::vector<Region> regions_;
  std::deque<u32> wanted_;  // regions that a command waits for
  size_t next_region_ = 0;  // of the rest
  std::vector<u32> free_;   // slots
  std::vector<std::optional<Piece>> in_slots_;
  bool rest_ = false, over_ = false;
  bool loads_ = false;  // a piece was sent since load_rest()
  std::vector<std::thread> threads_;
};

}  // namespace ckpt::tools
