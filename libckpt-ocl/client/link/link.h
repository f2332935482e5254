// SPDX-License-Identifier: Apache-2.0
//
// The link to the proxy: sends commands, waits for replies, receives completions. A process has one
// link, which outlives the proxies at its other end.
//
// Whichever thread calls OpenCL next receives the completions. An application can learn only
// through an API call that a command has finished, so that is when the bytes of a read are copied
// to their place. Only three things need a thread of the library: event callbacks (callbacks.h),
// commands that are held back while the application computes (the feeder of deferred.h), and what
// kernels print (printed.h). All leave the gate for a checkpoint.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/participant/traffic.h"
#include "common/ipc/shared_memory.h"
#include "libckpt-ocl/client/link/gate.h"
#include "libckpt-ocl/client/link/printed.h"
#include "libckpt-ocl/client/link/staging.h"
#include "libckpt-ocl/client/link/surroundings.h"
#include "libckpt-ocl/client/object/objects.h"
#include "ring/wire.h"

namespace ckpt::ocl {

// The first message of a proxy.
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
  u32 pid = 0;          // of the proxy, in the session keeper's PID namespace; 0 from older proxies
  bool remote = false;  // the devices are on another node, which has other files
};

class Link {
 public:
  // Connects to a new proxy of the session. `device` is the UUID of the only device that it may
  // show; empty: all devices that the session allows.
  Result<Greeting> open(const std::string &session, const std::string &device = {});
  // Connects to the proxy that this link was parked at.
  Result<> reopen(const std::string &session);
  // Ends the proxy that this link was parked at.
  Result<> abandon(const std::string &session);
  // Disconnects; the proxy waits for reopen(). No command may be pending.
  Result<> park();
  // Unmaps and closes everything, in any state.
  void close();
  // In the child of a fork: drops everything without touching the shared memory.
  void forget();

  // Whether the compiler sees other files than the program.
  bool compiles_elsewhere() const { return remote_.load(std::memory_order_relaxed); }
  bool usable() const { return usable_.load(std::memory_order_acquire); }

  // Whether the proxy still runs. If not, everything that waits for it fails.
  bool check_alive();

  // Sends a command one way. Fails only if the proxy is gone.
  cl_int send(u16 op, u64 made, ByteView payload, u16 flags = 0);
  cl_int send(Op op, u64 made, ByteView payload) {
    return send(static_cast<u16>(op), made, payload);
  }
  // Sends a command and waits for the proxy's reply: its status, and its bytes in `reply`.
  cl_int round_trip(u16 op, u64 made, ByteView payload, Bytes *reply = nullptr);
  cl_int round_trip(Op op, u64 made, ByteView payload, Bytes *reply = nullptr) {
    return round_trip(static_cast<u16>(op), made, payload, reply);
  }
  // The same with a descriptor, which comes with the command.
  cl_int round_trip(Op op, ByteView payload, int fd);
  // Asks for the buffer file of a buffer. With the gate closed.
  Result<UniqueFd> buffer_file(u64 mem);
  // Sends a descriptor; the command that refers to it follows.
  Result<> send_fd(u16 type, int fd);
  // Makes the program's working folder the proxy's, too.
  void follow_folder();
  // Queues the release of an object on the proxy's side; flush_releases() sends it.
  struct Release {
    Kind kind;
    u64 number;
    bool needs_marker = false;  // a queue with commands that will get no completion
  };
  void release_later(const Release &r);
  void flush_releases();

  // Registers the event of a command that will get a completion, before the command is sent.
  void expect(Event *event);
  void unexpect(Event *event);
  // The event of a command that has not completed yet; null: it has.
  Ref<Event> pending(u64 number);
  // Receives the completions that have arrived.
  void drain();
  // Receives completions until `done()` returns true. Returns false if the proxy is gone. With
  // `may_pause` the thread leaves the gate during a checkpoint; it must hold no lock and no
  // staging.
  bool wait_until(const std::function<bool()> &done, bool may_pause);
  // Whether no event is pending.
  bool idle();
  // Wakes every thread in wait_until(), so that it notices that the gate is closing.
  void wake_waiters();

  // Waits as wait_until() does for what the device has done.
  void wait_for_device(const std::function<bool()> &done);
  // What the way to the devices costs the program.
  agent::TrafficCounter traffic;

  std::byte *staging(u64 offset) { return memory_.data() + kStagingAt + offset; }
  StagingSpace &staging_space() { return space_; }
  // Waits for free staging memory. Returns no value if the proxy is gone.
  std::optional<u64> allocate_staging(u64 bytes);

 private:
  Result<Greeting> greet(UniqueFd socket);
  Header &header() { return *reinterpret_cast<Header *>(memory_.data()); }
  cl_int send_locked(u16 op, u64 made, ByteView payload, u16 flags, int fd = -1);
  cl_int send_with(Op op, int fd);
  template <class Send>
  cl_int round_trip_by(Send send, Bytes *reply);
  bool wait_for_room(size_t bytes);
  bool sleep_until_bell(u32 seen);
  bool hung_up();
  // A command that has finished, and whose event has not ended yet.
  struct Ended {
    Ref<Event> event;
    cl_int status;
  };
  void receive_completions(std::vector<Ref<Event>> &finished, std::vector<Ended> &ending);
  void end_writer(const Ended &ended);
  bool output_waits();
  void take_output();
  void fail_pending();
  void request_release_marker(u64 queue);
  void complete_event(Event &e, const Completion &c);

  Mapping memory_;
  UniqueFd socket_;
  u64 token_ = 0;
  std::atomic<bool> usable_{false};
  std::atomic<bool> remote_{false};

  // Locked in this order.
  std::mutex round_trip_mutex_;
  std::mutex send_mutex_;
  std::mutex drain_mutex_;
  std::unordered_map<u64, Ref<Event>> pending_;  // guarded by drain_mutex_
  Printed printed_;
  std::mutex release_mutex_;
  std::vector<Release> releases_;
  std::atomic<bool> any_releases_{false};
  StagingSpace space_{kStagingBytes};
  std::mutex folder_mutex_;  // locked before all others
  ProxyFolder proxy_folder_;
};

Link &link();

}  // namespace ckpt::ocl
