// SPDX-License-Identifier: Apache-2.0
//
// The program's end of the connection to ckpt-cuda-server (remote/cuda/protocol.h).
//
// A one-way call is only put into a batch, which costs its caller a lock and a copy. A thread of
// the library, the sender, sends the batch; while it does, further calls gather. A synchronous call
// sends what has gathered together with itself, and waits: one of the threads that wait receives,
// for all of them.
//
// After a move to the own node the calls go to a driver in this process (native.h), and there is no
// connection. If only some devices have moved there, both are used, and the link is split
// (site.h).
//
// A link outlives the servers at its other end. For a checkpoint it is parked: the session keeper
// keeps the connection, and the server waits, with all that the program has there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "agent/participant/traffic.h"
#include "remote/cuda/client/link/own_driver.h"
#include "remote/cuda/client/link/site.h"
#include "remote/cuda/handles.h"
#include "remote/cuda/protocol.h"
#include "remote/transport/connection.h"

namespace ckpt::remote::cuda {

class Native;

class Link {
 public:
  using Parts = std::initializer_list<ByteView>;

  // Asks the session's keeper for a connection to a new server with the chosen devices. For devices
  // of this node, `offer` says how the program can use them itself.
  Result<> open(const std::string &session, std::optional<OwnDriver::Offer> &offer);
  // The same for some devices. `numbers`: for each device of the program its number among them, or
  // -1.
  Result<> open_for(const std::string &session, const std::string &devices,
                    const std::vector<CUdevice> &numbers);
  // Calls go to the driver in this process from now on; a connection stays until close().
  void use_own_driver(DeviceNumbers devices);
  // No longer.
  void leave_own_driver();
  Native *native() const { return native_.load(std::memory_order_acquire); }
  // These devices of the program are those of the driver in this process, the others the server's;
  // none: all devices are of one of the two. While no call is made.
  // `device_of`: the device of a context, if it lives.
  using DeviceOf = std::optional<CUdevice> (*)(u64 context);
  void split(std::vector<bool> here, DeviceOf device_of = nullptr);
  bool is_split() const { return split_.load(std::memory_order_acquire); }
  // Whether the driver in this process makes the call.
  bool is_here(const Site &site) const;
  Native *native_at(const Site &site) const { return is_here(site) ? native() : nullptr; }
  // Hands the connection to the keeper; no call may be under way.
  Result<> park(const std::string &session);
  // Takes back the connection that was parked, or ends the server there.
  Result<> reopen(const std::string &session);
  Result<> abandon(const std::string &session);
  // Ends the server, in any state; no call may be under way.
  void close();
  bool parked() const { return token_ != 0; }
  bool connected() const { return connected_.load(std::memory_order_acquire) || native(); }
  // Calls of the program come again. Without a connection each one fails.
  void resume();
  // Why the connection is lost; empty: it is not.
  std::string why_lost();

  // Why no call can be carried out any more; CUDA_SUCCESS: they can.
  CUresult lost() const { return lost_.load(std::memory_order_relaxed); }

  // What the way to the devices costs the program.
  agent::TrafficCounter traffic;

  // How many calls this process has sent to servers.
  u64 calls() const { return calls_.load(std::memory_order_acquire); }
  // One way: whether it failed is known by the next synchronising call.
  void send(u16 op, const Site &site, Parts arguments);
  // Whether only this thread of the program has ever made calls of the device. Then a call that
  // waits for the device there can go one way: no other thread can have work that must begin
  // meanwhile.
  bool is_only_lane();
  void count_program_lane() { program_lanes_++; }
  // Waits for the reply. `data`: where the bytes of frames CudaData go, which must be as many.
  CUresult ask(u16 op, const Site &site, Parts arguments, Bytes *results = nullptr,
               std::span<std::byte> data = {});
  // The same; `take` gets the bytes of each such frame instead. Its error ends the connection.
  using TakeData = std::function<Result<>(ByteView)>;
  CUresult ask(u16 op, const Site &site, Parts arguments, const TakeData &take);
  // True once for each part of device code that this server, or the driver in this process, does
  // not have yet.
  bool sends_first(u64 part, bool here);

  // Runs `function` when the server says so, on a thread of this library.
  using HostFunction = std::function<void()>;
  u64 expect_host_call(HostFunction function);
  void forget_host_call(u64 token);
  bool expects_host_calls();

  // The reply was none of this protocol.
  CUresult malformed();
  // In the child of a fork: async-signal-safe.
  void forked();

 private:
  struct Waiting {
    CUresult status = CUDA_SUCCESS;
    Bytes *results;
    std::span<std::byte> data;
    const TakeData *take = nullptr;
    bool done = false;
  };
  CUresult wait_for(u16 op, const Site &site, Parts arguments, Waiting &w);
  // The context that goes along with a call.
  u64 context_at(const Site &site) const;
  Result<> take_data(Waiting &w, ByteView bytes);
  void note_host_call(u64 token);
  void begin(UniqueFd socket, const std::vector<CUdevice> &numbers);
  // From now on frames come through this socket, if it is valid.
  void set_socket(UniqueFd socket, const std::vector<CUdevice> &numbers = {});
  // No thread uses the connection any more.
  void stop_receiving();
  void add(u16 op, bool one_way, u64 context, Parts arguments);
  void flush();
  void send_batches();
  void receive_one(std::unique_lock<std::mutex> &lock);
  Result<> take(const Connection::Received &frame);
  void listen();
  void run_host_calls();
  void tell_done(u64 token);
  void lose(const Error &why);

  // Replaced with send_mutex_ and mutex_ held, and while no thread receives.
  std::unique_ptr<Connection> connection_;
  std::atomic<bool> connected_{false};
  std::atomic<u32> program_lanes_{0};
  std::atomic<u64> calls_{0};
  std::unique_ptr<Native> own_;
  std::atomic<Native *> native_{nullptr};
  std::atomic<bool> split_{false};
  std::vector<bool> here_;  // if split: by device
  DeviceOf device_of_ = nullptr;
  std::atomic<CUresult> lost_{CUDA_SUCCESS};
  std::mutex why_mutex_;  // guards what follows
  std::string why_lost_;
  bool in_use_ = false;  // by the program

  std::mutex parts_mutex_;
  std::unordered_set<u64> parts_, own_parts_;  // of device code, which the two have

  u64 token_ = 0;  // under which the keeper has the connection

  std::mutex batch_mutex_;  // guards what follows
  std::condition_variable gathered_;
  Connection::Batch batch_;
  bool sender_sleeps_ = false;
  bool sending_ = false;  // the sender was started

  std::mutex send_mutex_;  // held while a batch is sent; taken before batch_mutex_

  std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  bool receiving_ = false;                      // a thread receives now
  std::unordered_map<u32, Waiting *> waiting_;  // by lane

  u64 last_token_ = 0;
  std::unordered_map<u64, HostFunction> host_functions_;
  std::deque<u64> host_calls_;  // to be run now
  bool listening_ = false;
  bool parking_ = false;  // no thread begins to receive, except for its own reply
  bool closing_ = false;  // the connection is not needed any more
};

// What the driver of this node offers for these of the chosen devices.
Result<OwnDriver::Offer> offer_for(const std::string &session, const std::string &devices);
// The devices that were chosen for the program, as the session keeper names them; none: all.
Result<std::vector<std::string>> chosen_devices(const std::string &session);

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
Link &link();

}  // namespace ckpt::remote::cuda
