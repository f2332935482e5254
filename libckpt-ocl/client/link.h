// SPDX-License-Identifier: Apache-2.0
//
// The link to the proxy: sends commands, waits for answers, takes in completions. There is one per
// process, and it outlives the proxies that stand at its other end.
//
// Completions are taken in by whichever thread calls next: an application can only know that a
// command is over by an API call, so that is when a read's bytes are copied to their place. No
// thread of ours is needed, and none has to be frozen.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/ipc/shared_memory.h"
#include "libckpt-ocl/client/gate.h"
#include "libckpt-ocl/client/objects.h"
#include "libckpt-ocl/client/staging.h"
#include "libckpt-ocl/wire.h"

namespace ckpt::ocl {

// What a proxy says first.
struct Greeting {
  struct Dev {
    u64 type;
    std::string name;
  };
  struct Plat {
    std::string name;
    std::vector<Dev> devices;
  };
  std::vector<Plat> platforms;
  u32 pid = 0;  // its own, as the session keeper sees it; 0: an older one
};

class Link {
 public:
  // Connects to a new proxy of the session; `device`: the UUID of the only one that it shall show,
  // or empty: those that the session's program may use.
  Result<Greeting> open(const std::string &session, const std::string &device = {});
  // Connects to the proxy that this link was parked at.
  Result<> reopen(const std::string &session);
  // The proxy that this link was parked at is not needed any more.
  Result<> abandon(const std::string &session);
  // Leaves the proxy, which waits for reopen(). Nothing may be pending.
  Result<> park();
  // Unmaps and closes everything, whatever the state.
  void close();
  // In a fork's child: forgets everything without touching it.
  void forget();

  bool usable() const { return usable_.load(std::memory_order_acquire); }

  // One way. An error only if the proxy is gone.
  cl_int send(u16 op, u64 made, ByteView payload, u16 flags = 0);
  cl_int send(Op op, u64 made, ByteView payload) {
    return send(static_cast<u16>(op), made, payload);
  }
  // There and back: the status that the far side answered, and its bytes.
  cl_int ask(u16 op, u64 made, ByteView payload, Bytes *reply = nullptr);
  cl_int ask(Op op, u64 made, ByteView payload, Bytes *reply = nullptr) {
    return ask(static_cast<u16>(op), made, payload, reply);
  }
  // A descriptor for the proxy, ahead of the command that speaks of it.
  Result<> send_fd(u16 type, int fd);
  // Tells the proxy to let go of an object: with the next send, or flush_releases().
  struct Release {
    Kind kind;
    u64 number;
    bool settle = false;  // a queue with commands under way of which we would not hear
  };
  void release_later(const Release &r);
  void flush_releases();

  // A command that will be answered by a completion; call before it is sent.
  void expect(Event *event);
  void unexpect(Event *event);
  void drain();
  // Waits, taking in completions, until `done` says so. False: the proxy is gone. A waiter that
  // `may_pause` steps out of the gate for a checkpoint; it must hold no lock and no staging.
  bool wait_until(const std::function<bool()> &done, bool may_pause);
  bool idle();
  // Wakes every waiter, so that it sees that the gate is closing.
  void wake_waiters();

  std::byte *staging(u64 offset) { return memory_.data() + kStagingAt + offset; }
  StagingSpace &staging_space() { return space_; }
  // Waits for room. No value: the proxy is gone.
  std::optional<u64> allocate_staging(u64 bytes);

 private:
  Result<Greeting> greet(UniqueFd socket);
  Header &header() { return *reinterpret_cast<Header *>(memory_.data()); }
  cl_int send_locked(u16 op, u64 made, ByteView payload, u16 flags);
  bool wait_for_room(size_t bytes);
  void push(const CommandHeader &c, ByteView payload);
  bool sleep_until_bell(u32 seen);
  bool hung_up();
  void take_in(std::vector<Ref<Event>> &over);
  void fail_everything();
  void settle_nameless(u64 queue);
  void finish(Event &e, const Completion &c);

  Mapping memory_;
  UniqueFd socket_;
  u64 token_ = 0;
  std::atomic<bool> usable_{false};

  std::mutex ask_mutex_;   // before send_mutex_
  std::mutex send_mutex_;  // before drain_mutex_
  std::mutex drain_mutex_;
  std::unordered_map<u64, Ref<Event>> pending_;  // guarded by drain_mutex_
  std::mutex release_mutex_;
  std::vector<Release> releases_;
  std::atomic<bool> any_releases_{false};
  StagingSpace space_{kStagingBytes};
};

Link &link();

// A queue keeps its newest command, and that its queue, only while it is under way.
void forget_as_last(const Event &e);

}  // namespace ckpt::ocl
