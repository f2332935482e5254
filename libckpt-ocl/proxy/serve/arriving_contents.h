// SPDX-License-Identifier: Apache-2.0
//
// The contents of buffers that a restore sends while the program already runs: the mirror of
// owed_contents.h.
//
//   serving thread   ArrivesLater …, ArrivalBegin   before the program goes on
//   loading thread   takes one piece after the other from the tool, and writes it to its buffer by
//                    a queue of ours
//   serving thread   need(), when a command names a buffer: asks the tool for it, and waits until
//                    the loading thread has written all of it. Only then the command goes on
//
// A command that names no missing buffer does not wait. Nothing waits the other way: the loading
// thread's writes depend on no command of the program, so the two cannot block each other. A buffer
// that is released before drops what has not come.
//
// If the tool ends before everything is here, the buffers can never be right: `lost` is called.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "agent/protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/proxy/serve/objects.h"

namespace ckpt::ocl {

class ArrivingContents {
 public:
  struct Buffer {
    u64 number = 0;
    std::vector<u64> others;  // numbers of sub-buffers and images that lie on it
    cl_mem mem = nullptr;
    cl_command_queue queue = nullptr;  // of ours, in its context
    std::byte *pages = nullptr;        // of its buffer file; null: it has none
    u64 bytes = 0;
  };

  // `lost` is called in the loading thread, once.
  explicit ArrivingContents(std::function<void()> lost) : lost_(std::move(lost)) {}
  ~ArrivingContents();
  ArrivingContents(const ArrivingContents &) = delete;

  // Serving thread. The first two return an OpenCL error; the tool's messages come over `tool`.
  cl_int add(Buffer buffer);
  cl_int begin(int tool);
  // Whether need() would wait.
  bool misses(u64 number);
  // Returns when the object has its contents, or when they are lost.
  void need(u64 number);
  // The program has released it.
  void forget(u64 number);

 private:
  struct Arriving : Buffer {
    u64 there = 0;       // bytes
    bool asked = false;  // the tool knows that a command waits
    bool dropped = false, busy = false;
    bool over() const { return dropped || there == bytes; }
  };
  struct Piece {
    u32 slot = 0;
    size_t buffer = 0;
    u64 offset = 0;
    u32 bytes = 0;
  };

  void load();
  Result<> load_all();
  Result<> take_staging(const Message &m);
  Result<> take(const Message &m);
  std::optional<Piece> piece_of(const Message &m) const;
  Result<> write(const Piece &p);
  bool all_over();
  void tell(protocol::Type type, u32 number);
  void release(Arriving &b);
  void clear();

  const std::function<void()> lost_;
  std::unordered_map<u64, size_t> by_object_;  // of the serving thread
  bool sound_ = true;                          // every add() has succeeded
  UniqueFd tool_;
  std::thread loader_;
  std::atomic<bool> ended_{true};  // the loading thread
  Mapping staging_;                // the tool's slots
  u32 slots_ = 0, slot_bytes_ = 0;

  std::mutex send_mutex_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Arriving> buffers_;  // in the order of add(), the tool's numbers
  bool gone_ = false;              // the tool has hung up
};

}  // namespace ckpt::ocl
