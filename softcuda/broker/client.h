// SPDX-License-Identifier: Apache-2.0
//
// A process's connection to the broker, which is started where there is none.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/unique_fd.h"
#include "softcuda/broker/engines.h"
#include "softcuda/broker/protocol.h"
#include "softcuda/device/memory.h"

namespace ckpt::softcuda::broker {

struct DeviceUse {
  u64 total_bytes = 0;
  u64 free_bytes = 0;
};

struct ProcessUse {
  i32 pid = 0;
  u64 bytes = 0;
};

class Client : public Budget {
 public:
  static Result<std::unique_ptr<Client>> connect();
  ~Client() override;

  // As the broker has them, whatever remap() says.
  const std::vector<DeviceInfo> &devices() const { return devices_; }
  // Device i of this process is from now on the broker's device places[i].
  void remap(std::vector<u32> places) { places_ = std::move(places); }
  u32 place(u32 device) const { return device < places_.size() ? places_[device] : device; }
  bool take(u32 device, u64 bytes) override;
  void give(u32 device, u64 bytes) override;
  Result<DeviceUse> use(u32 device);
  Result<std::vector<ProcessUse>> processes(u32 device);
  // Takes the device's engines for it; returns when it is over: CLOCK_MONOTONIC, in nanoseconds.
  Result<i64> reserve(u32 device, const Job &job);
  // Carries an order to another process and its answer back. No value: the broker does not know it.
  Result<std::optional<Bytes>> ask(i32 pid, ByteView order);

  // For a checkpoint: no descriptor may be open. What was taken must have been given back.
  void disconnect();
  Result<> reconnect();
  // In a forked child: closes its copies of the sockets, so that a hang-up is seen.
  static void abandon();

  // A thread answers orders from other processes by `serve`, over a connection of its own.
  Result<> start_serving(std::function<Bytes(ByteView)> serve);
  // While disconnected: one order.
  Result<> serve_again();

 private:
  Client() = default;
  Result<Bytes> call(Request type, ByteView body, Response expected);
  Result<> hello();
  void serve_loop(int fd);
  bool socket_open();

  std::mutex mutex_;
  UniqueFd socket_;
  UniqueFd service_;
  std::function<Bytes(ByteView)> serve_;
  bool serving_ = false;
  std::thread::id server_;
  std::condition_variable served_;
  std::vector<DeviceInfo> devices_;
  std::vector<u32> places_;
};

}  // namespace ckpt::softcuda::broker
