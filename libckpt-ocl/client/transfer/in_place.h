// SPDX-License-Identifier: Apache-2.0
//
// Commands on buffers whose pages the program shares with the driver (shared_memory.h): the
// application carries them out itself, at their place in the queue.
//
// A map or unmap moves no bytes. Where nothing of its queue is under way, the driver need not learn
// of it; elsewhere a marker keeps the order. A read or write copies here. It may do so only when
// all earlier commands of the queue have finished and no later one runs: the queue's lock is held
// while it copies. If another thread sends a command in between, the transfer goes through staging,
// where the driver keeps the order.
#pragma once

#include <optional>

#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {

// Sends a marker in the place of a command that moves no bytes.
cl_int send_marker(Command &c);
// Whether the command would run at once, so that none of its queue must be waited for. An event
// with time stamps comes from the driver.
bool runs_at_once(Command &c, const cl_event *out);
// The command has run: hands out its event.
cl_int hand_out_finished(Command &c, cl_event *out);

// A read or write. No value: it must go through staging.
std::optional<cl_int> copy_in_place(bool reading, cl_command_queue queue, cl_command_type type,
                                    Mem &mem, const Rect &all, std::byte *host, Blocking blocking,
                                    Waits waits, cl_event *out);

}  // namespace ckpt::ocl
