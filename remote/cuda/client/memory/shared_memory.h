// SPDX-License-Identifier: Apache-2.0
//
// Memory that the program shares with a device of another node: managed memory, and page-locked
// memory that is mapped. shared_memory.cc says how.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "remote/cuda/client/memory/memory.h"
#include "remote/cuda/zero_pages.h"

namespace ckpt::remote::cuda {

class SharedMemory {
 public:
  // Host and device begin to share the allocation `device`. `host`: where the program has it.
  CUresult begin(const Allocation &device, u64 host);
  // `host`: as in begin(). False: nothing shared begins there.
  bool end(u64 host);
  // Of a context that has ended.
  void end_all(u64 context);
  // The device's address of these bytes of the host; 0: they are not shared.
  u64 on_device(u64 host, u64 bytes) const;

  // Before work is sent that may use the memory, in this stream. The device gets what the program
  // has changed.
  CUresult before_work(u64 stream);
  // Before the program waits or asks: a kernel may wait for mapped memory that the program has
  // changed.
  CUresult before_wait();
  // The program has waited for a stream, for kAllStreams of the current context, or only for an
  // event: it sees what the device has changed.
  static constexpr u64 kAllStreams = ~u64{0}, kEvent = ~u64{1};
  CUresult after_wait(u64 stream);
  // Whether there is such memory.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Whether any of these bytes of the device is shared.
  bool uses(u64 device, u64 bytes) const;

  bool is_used() const { return any_.load(std::memory_order_relaxed); }

  // Runs a host function, which may use the memory while its stream waits.
  void run_host_function(const std::function<void()> &function);

  // With the gate closed and the devices idle: the host's memory is what counts.
  Result<> settle();
  // On another server: both sides begin with zeros, so the next work sends all.
  Result<> make_again();
  // The program runs on with the server that it had, unless make_again() has failed meanwhile.
  Result<> keep();
  void resume() { begun_again_ = false; }

 private:
  struct Shared {
    u64 device = 0, bytes = 0;
    u64 context = 0;
    bool managed = false;
    ZeroPages then;       // as it was when both sides were equal
    bool direct = false;  // a driver in this process reaches the program's pages: there is no copy
  };
  using Table = std::map<u64, Shared>;  // by the host's address
  static CUresult mirror(const Shared &s);
  Table::iterator forget(Table::iterator i);
  enum class Which : u8 { All, Mapped };
  CUresult push(Which which, bool wait = false);
  CUresult push_changes(u64 host, Shared &s, Writer &message, bool wait);
  CUresult fetch();
  Result<> take_changes(ByteView frame);
  std::pair<const u64, Shared> *holding(u64 device, u64 bytes);
  void lend(bool to_device);
  void set_access(u64 begin, u64 end) const;
  bool resolve_fault(u64 address);
  void waited_for_all_of(u64 context);
  static bool on_fault(u64 address, bool mapped);

  void count(const Shared &s, int one);

  // Checked by every launch and wait: whether there is memory of which both sides have a copy.
  std::atomic<bool> any_{false};
  std::atomic<bool> known_{false};  // whether there is any at all
  mutable std::mutex mutex_;
  Table all_;
  std::map<u64, u64> by_device_;  // the host's address, by the device's
  i64 copied_ = 0, mapped_ = 0;   // how many have a copy; and how many of these are not managed
  // With work that the program has not waited for: the context and the stream.
  std::set<std::pair<u64, u64>> streams_;
  bool lent_ = false;       // the device has the managed memory; the host has no access
  int host_functions_ = 0;  // that run now
  bool begun_again_ = false;
};

SharedMemory &shared_memory();

// A call of the program that waits, or asks whether there is something to wait for. `stream`: as
// after_wait() has it.
template <class Call>
CUresult waiting(u64 stream, Call call) {
  if (CUresult e = shared_memory().before_wait(); e != CUDA_SUCCESS) return e;
  CUresult e = call();
  return e == CUDA_SUCCESS ? shared_memory().after_wait(stream) : e;
}

}  // namespace ckpt::remote::cuda
