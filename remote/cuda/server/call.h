// SPDX-License-Identifier: Apache-2.0
//
// One call of the program, as the server carries it out.
#pragma once

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
  bool malformed = false;  // the connection ends
  u64 ended = 0;           // the number of an object that the call has ended
  bool waits = false;      // it reports the errors of earlier one-way calls

  CUresult reject() {
    malformed = true;
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Into the reply: the number of an object of the driver that was made or found.
  void put_number(u64 wanted, void *real, u64 owner);
};

using Handler = CUresult (*)(Call &);
// Null: there is no such call.
Handler line_handler(u16 number);  // a line of cuda.api
bool may_end_context(u16 number);  // the same
Handler op_handler(u16 op);        // an Op

}  // namespace ckpt::remote::cuda
