// SPDX-License-Identifier: Apache-2.0
//
// The protocol between a tool and ckpt-helper, in frames of common/ipc/unix_socket.h.
//
//   tool     Inherit      u64 for each descriptor that comes along: the inode of the image's pipe
//                         that it replaces (a dump: 0). Any number of times.
//            Dump         i32 PID of the program's root, u8 whether CRIU logs errors only
//                         descriptors: CRIU's log
//            Restore      i32 PID of the program's root in the image, i32 the last PID that is in
//                         use there, u8 flags (below), string, string: a folder of the caller
//                         that is to be seen as the other one
//                         descriptors: CRIU's log, and with kTerminal a terminal
//            Lazy         nothing: may a restore have kLazy?
//   helper   Refused      string what, string hint. The connection is closed.
//            Streams      i32 PID of CRIU (a dump) or of the stem (a restore); descriptor: a
//                         connection with CRIU (tools/criu/streamer.h). Without a descriptor: CRIU
//                         has ended before.
//            Lazy         to Lazy: yes. The connection is closed.
//   From then on both sides send no frames:
//   helper   Event        as they happen
//   tool     one byte     after Started: the program has its keeper. If the connection ends before
//                         that, the stem ends the copy.
//   With kLazy, in frames, after Started and before that byte:
//   tool     Userfaultfd  i32 PID of a process of the restored program. Any number of times.
//   helper   Userfaultfd  descriptor: the process's userfaultfd; or Refused
//   tool     Enough       no other one follows
//
// A tool and a helper may be of different versions: messages are only added.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::helper {

inline constexpr const char *kSocket = "/run/ckpt-helper.sock";
inline constexpr const char *kSocketVariable = "CKPT_HELPER";
// The name of the parent process of a program that the helper has restored.
inline constexpr const char *kStemName = "ckpt-stem";

enum class Type : u16 {
  Inherit = 1,
  Dump = 2,
  Restore = 3,
  Lazy = 4,
  Userfaultfd = 5,
  Enough = 6,
  Streams = 64,
  Refused = 65
};

enum RestoreFlag : u8 {
  kErrorsOnly = 1,    // in CRIU's log
  kTerminal = 2,      // the program leads a session on a terminal
  kOwnTerminals = 4,  // pseudo-terminals of its own
  kLazy = 8,          // the program gets a part of its memory later (ckpt-restore --lazy)
};

// What happens to CRIU and to the program.
struct Event {
  enum Kind : int {
    CriuEnded = 1,  // value: CRIU's wait status
    Started,        // the root's PID in its own namespace
    Continued,      // 0
    Stopped,        // the signal
    Ended,          // the root's wait status
  } kind;
  int value;
};

struct Inherited {
  UniqueFd fd;
  u64 inode;
};

struct Request {
  Type type = Type::Dump;
  i32 root = 0;
  i32 last_pid = 0;
  u8 flags = 0;
  std::string seen_from, seen_as;
  UniqueFd log, terminal;
  std::vector<Inherited> inherited;
};

// Takes the frames of a request. True: it is complete.
Result<bool> add_frame(Request &request, Message frame);
// Receives the request of a tool that may be hostile.
Result<Request> receive_request(int connection);
Result<> send_request(int connection, const Request &request);
void refuse(int connection, const Error &why);

}  // namespace ckpt::helper
