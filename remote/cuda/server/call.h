// SPDX-License-Identifier: Apache-2.0
//
// One call of the program, as the server carries it out.
#pragma once

#include <functional>

#include "remote/cuda/protocol.h"
#include "remote/cuda/server/device_memory.h"
#include "remote/cuda/server/objects.h"

namespace ckpt::remote::cuda {

class Server;

struct Call {
  explicit Call(Server &s) : server(s), in({}) {}

  Server &server;
  CallHeader header{};
  Reader in;
  Writer out;
  // Of a call of this process itself (client/native.h), which is not a frame: the bytes behind
  // `in`, and where bytes for the program go.
  ByteView apart;
  std::span<std::byte> into;
  const std::function<void(ByteView)> *take = nullptr;
  bool malformed = false;  // the connection ends
  u64 ended = 0;           // the number of an object that the call has ended
  u64 emptied = 0;         // that of one of which all that it owns has ended
  bool makes = false;      // an object that it gives out is a new one
  bool waits = false;      // it reports the errors of earlier one-way calls

  CUresult reject() {
    malformed = true;
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The arguments up to their end.
  ByteView rest() { return apart.empty() ? in.raw(in.left()) : apart; }
  // Gives the program these bytes in front of the reply.
  void give(ByteView bytes);
  // Into the reply: the number of an object of the driver that was made or found.
  void put_number(u64 wanted, void *real, u64 owner);
};

using Handler = CUresult (*)(Call &);
// Null: there is no such call.
Handler line_handler(u16 number);  // a line of cuda.api
bool may_end_context(u16 number);  // the same
Handler op_handler(u16 op);        // an Op

}  // namespace ckpt::remote::cuda
