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

#include "remote/connection.h"
#include "remote/cuda/server/arrays.h"
#include "remote/cuda/server/call.h"
#include "remote/cuda/server/code_parts.h"
#include "remote/cuda/server/host_calls.h"
#include "remote/cuda/server/lane.h"
#include "remote/cuda/server/layouts.h"
#include "remote/cuda/server/mirrors.h"
#include "remote/cuda/server/output.h"
#include "remote/cuda/server/own_streams.h"

namespace ckpt::remote::cuda {

class Server {
 public:
  // Never destroyed: its threads run until the process ends.
  Server(std::unique_ptr<Connection> connection, DeviceMemory::Ask ask)
      : arrays(ask), memory(std::move(ask)), connection_(std::move(connection)) {}

  Objects objects;
  Arrays arrays;
  DeviceMemory memory;
  CodeParts code;
  HostCalls host_calls;
  OwnStreams streams;
  Mirrors mirrors{streams};
  Layouts layouts{objects};
  Output output;

  // Until the program has hung up, or a call is malformed, which is an error.
  Result<> run();
  // Executes the call of a frame; on the thread of its lane.
  void execute(ByteView frame);
  // In front of the reply of the current call.
  void send_data(const CallHeader &call, ByteView bytes);
  Connection &connection() { return *connection_; }

  // The error of a one-way call, which the next synchronising call reports.
  void keep_late_error(CUresult e);
  CUresult late_error() const { return late_error_; }

 private:
  Result<> take(const Connection::Received &frame);
  Result<> hand_over(ByteView body);
  Lane *lane(u32 number);
  CUresult carry_out(Call &call);
  void reply(const Call &call, CUresult status);

  std::unique_ptr<Connection> connection_;
  std::map<u32, std::unique_ptr<Lane>> lanes_;  // the receiver's
  Lane *last_one_way_ = nullptr;
  std::atomic<CUresult> late_error_{CUDA_SUCCESS};
  std::atomic<bool> malformed_{false};
};

}  // namespace ckpt::remote::cuda
