// SPDX-License-Identifier: Apache-2.0
//
// What the processes of a connection say to ckpt-devd, over a socket pair
// (common/ipc/unix_socket.h).
//
// The process with the CUDA driver runs with the user's rights, and so the user can take its end of
// the socket pair (pidfd_getfd(2)). That gains nothing: the user of a connection is said once, by
// the first process, before it gives up root's rights; and the daemon accepts a note only from the
// processes that serve the connection, which the kernel names for each note (SO_PASSCRED). A user
// who can control that process itself can use the devices without ckpt-devd.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::remote {

enum class Note : u16 {
  // To the daemon.
  Enter = 1,   // {str user}, once; the answer is Granted or Denied
  Memory = 2,  // {i64 change}; the answer is Granted or Denied
  Failed = 3,  // {str why}: a line for the log
  // Of an OpenCL program's session (inventory.h); `devices` says how its proxy is started.
  Known = 4,     // {str devices}; the answer is Granted with an Inventory
  Greeted = 5,   // {str devices, blob platforms}
  Answered = 6,  // {str devices, blob key, i32 status, blob}
  Changed = 7,   // {str devices}: what is known is out of date
  Listed = 8,    // {u64}: a hash of the list of devices that a user got
  // Of the first process of a CUDA program's connection.
  Serves = 9,  // {u32 PID}: this process also serves it
  // From the daemon.
  Granted = 16,  // and what was asked for
  Denied = 17,   // {str what, str hint}
};

// Sends the note and waits for the answer; Denied is an error. One at a time.
Result<Bytes> ask_daemon(int daemon, Note note, ByteView body);
// `change` more bytes of device memory; negative: fewer. False: the user's limit is reached.
bool ask_for_memory(int daemon, i64 change);

}  // namespace ckpt::remote
