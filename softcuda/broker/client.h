// SPDX-License-Identifier: Apache-2.0
//
// A process's connection to the broker. The first client starts the broker.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/unique_fd.h"
#include "common/ipc/unix_socket.h"
#include "softcuda/broker/engines.h"
#include "softcuda/broker/protocol.h"
#include "softcuda/broker/shares.h"
#include "softcuda/device/memory.h"

namespace ckpt::softcuda::broker {

struct DeviceUse {
  u64 total_bytes = 0;
  u64 free_bytes = 0;
};

// Of a device's engines, since the broker's start; nanoseconds.
struct EngineUse {
  i64 all = 0, kernels = 0, bus = 0;
  bool runs_kernel = false, uses_bus = false;
};

// For how long the kernels of each process have run, by its PID, and the time since the broker's
// start; nanoseconds.
struct KernelTimes {
  i64 all = 0;
  std::map<i32, i64> of;
};

struct ProcessUse {
  i32 pid = 0;
  u64 bytes = 0;
};

class Client : public Budget {
 public:
  static Result<std::unique_ptr<Client>> connect();
  ~Client() override;

  // All devices of the broker, in its order.
  const std::vector<DeviceInfo> &devices() const { return devices_; }
  // From now on, device i of this process is the broker's device places[i].
  void remap(std::vector<u32> places) { places_ = std::move(places); }
  u32 broker_index(u32 device) const { return device < places_.size() ? places_[device] : device; }
  // False: too little is free. Then `on_refusal` is called, once in the life of the process, if
  // other processes have memory of the device.
  bool take(u32 device, u64 bytes) override;
  std::function<void(const std::string &text)> on_refusal;
  void give(u32 device, u64 bytes) override;
  Result<DeviceUse> use(u32 device);
  Result<std::vector<ProcessUse>> processes(u32 device);
  Result<EngineUse> engines(u32 device);
  Result<KernelTimes> kernel_times(u32 device);
  // Whether another process uses the devices.
  bool has_others();
  // Reserves the device's engines for a job. Returns when the job ends: CLOCK_MONOTONIC,
  // nanoseconds.
  Result<i64> reserve(u32 device, const Job &job);
  // Sends an order to another process and waits for the answer. No value: the broker knows no such
  // process, or it is busy.
  Result<std::optional<Bytes>> ask(i32 pid, ByteView order);

  // The number of this process's connection, which no other connection has had. 0: the broker is
  // gone.
  u64 identity();
  bool is_connected(u64 identity);
  // Lets other processes open a file in memory until it is withdrawn or this process ends.
  Result<ShareId> share(ByteView description, int fd);
  void withdraw(const ShareId &id);
  // Device memory in a file that other processes may have, too. `own`: it was taken by take().
  void hold(u64 file, u32 device, u64 bytes, bool own);
  void drop(u64 file);
  // No value: no process shares a file under this ID.
  Result<std::optional<Share>> open(const ShareId &id);

  // For a checkpoint: closes both connections. All memory must have been given back before.
  void disconnect();
  Result<> reconnect();
  // In a forked child: closes its copies of the sockets, so that the broker notices when the parent
  // exits.
  static void close_in_child();

  // Starts a thread that executes orders of other processes with `serve`, over its own connection.
  Result<> start_serving(std::function<Bytes(ByteView)> serve);
  // While disconnected: connects for one order. Does nothing if the thread is running.
  Result<> serve_again();

 private:
  Client() = default;
  Result<Message> exchange(Request type, ByteView body, Response expected,
                           std::span<const int> fds = {});
  void tell(Request type, const Writer &w);
  Result<Bytes> call(Request type, ByteView body, Response expected);
  Result<> hello();
  void explain_refusal(u32 device, u64 bytes);
  void serve_loop(int fd);
  bool socket_open();

  std::atomic<bool> explained_{false};
  std::mutex mutex_;
  UniqueFd socket_;
  UniqueFd service_;
  u64 identity_ = 0;
  std::function<Bytes(ByteView)> serve_;
  bool serving_ = false;
  std::thread::id server_;
  std::condition_variable served_;
  std::vector<DeviceInfo> devices_;
  std::vector<u32> places_;
};

}  // namespace ckpt::softcuda::broker
