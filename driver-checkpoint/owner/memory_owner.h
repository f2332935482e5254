// SPDX-License-Identifier: Apache-2.0
//
// The owner of device memory: a process that holds a program's physical device memory while the
// program is dumped, and copies it meanwhile.
//
// The problem. Between the driver's Lock and Unlock a process cannot copy device memory, because
// its own calls wait. So the contents are copied before, while the program is paused, and copied
// back after a dump that leaves it running. Both take time in proportion to the memory.
//
// How it works. Physical memory does not belong to a process for ever: a shareable handle (a
// descriptor) passes it on, without a copy. The session's keeper starts the owner while the program
// still runs, because cuInit and a context take seconds. Then, with the devices idle:
//
//   program                                    owner                            tool
//   MemoryGiven, with descriptors  ──────────► imports and maps it
//   DrainWanted, with a file       ──────────► copies it into the file ───────► Drained
//   OwnerLeave                     ──────────► stays when the program hangs up
//   unmaps and releases it; the driver's Lock and Checkpoint; CRIU; Restore and Unlock
//   ProxyAgain to the keeper       ──────────► is connected again
//   MemoryWanted                   ◄────────── the same descriptors, when the copies have ended
//   imports and maps it at the same addresses                                  the owner ends
//
// If the program goes on after the dump, it need not wait for copies over the bus: the owner first
// copies the memory to other memory of the same device (device_copies.h), gives it back, and copies
// those device copies to the file while the program runs.
//
// Memory that another process has imported is freed when the last of them has released it, so
// nothing depends on the owner after that, and the program can be dumped again.
//
// What is lost with which process. Until OwnerLeave is answered, the program has its memory, and an
// owner that ends costs nothing but the dump. From then on until the contents are in the file, only
// the owner has them: if it is killed, the program has lost its devices. When the dump has
// succeeded they are in the file, too. docs/CUDA.md has the table.
//
// Cost. A process, its context on each device (about 0.5 GiB each), one descriptor for each piece
// of physical memory, six driver calls for each in the owner and one in the program. Device copies
// take at most three quarters of what is free on the device.
//
// Source. CUDA driver API, section "Virtual Memory Management"; on an H200 with driver 580.159.04,
// memory that was imported, unmapped and released before a checkpoint was attached again in 15 ms.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::cuda {

// Physical memory, by its shareable handle.
struct SharedMemory {
  u64 key = 0;  // the program's name for it
  u64 bytes = 0;
  UniqueFd handle;
};

// The owner copies `bytes` bytes at `offset` of the memory `key` to `at` of the file.
struct OwnerCopy {
  u64 key = 0, offset = 0, bytes = 0, at = 0;
};

// The program's end of the connection. Not thread-safe.
class MemoryOwner {
 public:
  // Starts the process. Returns when it is ready for the devices with these UUIDs.
  Result<> start(const std::vector<std::string> &uuids);
  // At most kMaxMessageFds of them.
  Result<> give(const std::vector<SharedMemory> &some);
  // Returns when the copies have begun. `tool` is the owner's end of a socket to the tool.   //
  // `device_copies`: the program goes on meanwhile. Returns for how many bytes there is no room for
  // one.
  Result<u64> drain(int file, u64 file_bytes, int tool, const std::vector<OwnerCopy> &copies,
                    bool device_copies);
  // It keeps the memory from now on. Hangs up. After a failure, drop() ends it.
  Result<> leave();
  // Connects to it again.
  Result<> come_back();
  // The next of the memory that it has; none: that was all. Waits for the end of the copies.
  Result<std::vector<SharedMemory>> take_some();

  // After take_some() has returned all: a descriptor at which the end of the process shows.
  UniqueFd release_connection() { return std::move(connection_); }

  // Hangs up. Unless leave() was called, the process ends. Async-signal-safe.
  void hang_up() { connection_.reset(); }
  // Ends the process, also after leave().
  void drop();

 private:
  Result<Message> answer();
  Result<Message> ask(u16 type, ByteView body, std::span<const int> fds = {});
  Result<> connect(u16 request, const Writer &body);

  UniqueFd connection_;
  u64 token_ = 0;  // of the process at the session's keeper
};

}  // namespace ckpt::cuda
