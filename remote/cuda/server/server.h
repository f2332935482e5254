// SPDX-License-Identifier: Apache-2.0
//
// One program's calls (remote/cuda/protocol.h), from its connection to the driver.
//
//   receiver   frames → lanes           the thread that calls run()
//   lanes      calls → driver, replies  one thread for each thread of the program
//   output     printed text → frames    before the reply that waits for it
//
// The program at the other end is not trusted: handles are looked up, addresses are checked against
// what it has, sizes are bounded, and a malformed call ends the connection. What kernels do is the
// driver's business.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "remote/cuda/server/arrays.h"
#include "remote/cuda/server/call.h"
#include "remote/cuda/server/code_parts.h"
#include "remote/cuda/server/device_numbers.h"
#include "remote/cuda/server/host_calls.h"
#include "remote/cuda/server/lane.h"
#include "remote/cuda/server/layouts.h"
#include "remote/cuda/server/mirrors.h"
#include "remote/cuda/server/output.h"
#include "remote/cuda/server/own_streams.h"
#include "remote/transport/connection.h"

namespace ckpt::remote::cuda {

class Server {
 public:
  // Never destroyed: its threads run until the process ends.
  Server(std::unique_ptr<Connection> connection, DeviceMemory::Ask ask)
      : arrays(ask), memory(ask), code(std::move(ask)), connection_(std::move(connection)) {}
  // Of the program's own process: has no threads, and only perform() is called. `host_call`: as
  // tell_host_call().
  using HostCall = std::function<void(u64 token)>;
  Server(DeviceNumbers numbers, Arena arena, HostCall host_call)
      : arrays([](i64) { return true; }),
        memory([](i64) { return true; }, arena),
        code([](i64) { return true; }),
        devices(std::move(numbers)),
        host_call_(std::move(host_call)) {}

  Objects objects;
  Arrays arrays;
  DeviceMemory memory;
  CodeParts code;
  DeviceNumbers devices;
  HostCalls host_calls;
  OwnStreams streams;
  Mirrors mirrors{streams};
  Layouts layouts{objects};
  Output output;

  // Until the program has hung up, or a call is malformed, which is an error.
  Result<> run();
  // Executes the call of a frame; on the thread of its lane.
  void execute(ByteView frame);
  // Makes this context, 0: none, the thread's current one.
  CUresult enter(u64 context);
  // Executes a call, except for the reply.
  CUresult perform(Call &call);
  // In front of the reply of the current call.
  void send_data(const CallHeader &call, ByteView bytes);
  // A stream is at a function of the program.
  void tell_host_call(u64 token);

  // The error of a one-way call, which the next synchronising call reports.
  void keep_late_error(CUresult e);
  CUresult late_error() const { return late_error_; }

 private:
  Result<> take(const Connection::Received &frame);
  Result<> hand_over(ByteView body);
  Result<> take_devices(ByteView arguments);
  static u64 new_id();
  Lane *lane(u32 number);
  CUresult carry_out(Call &call);
  // These objects have ended.
  void forget(const std::vector<u64> &ended);
  void reply(const Call &call, CUresult status);

  const u64 id_ = new_id();
  std::unique_ptr<Connection> connection_;
  HostCall host_call_;
  std::map<u32, std::unique_ptr<Lane>> lanes_;  // the receiver's
  Lane *last_one_way_ = nullptr;
  std::atomic<CUresult> late_error_{CUDA_SUCCESS};
  std::atomic<bool> malformed_{false};
};

}  // namespace ckpt::remote::cuda
