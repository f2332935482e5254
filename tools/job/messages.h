// SPDX-License-Identifier: Apache-2.0
//
// The messages between the coordinator of a job and its members. docs/rooms/job.md has the order.
// The bytes come from another machine: every length is checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "tools/net/inet_table.h"

namespace ckpt::tools {

enum class JobMessage : u16 {
  Begin = 1,  // to a member: Begin
  Go,         // to a member: all have reached u8 stage
  Alive,      // to a member: the others are not there yet
  Abort,      // to a member: string why
  Reached,    // to the coordinator: Reached
  Failed,     // to the coordinator: string what, string hint
  Welcome,    // to the coordinator: string member, the answer to Begin
};

// The stages. All members reach a stage before any proceeds.
enum class Stage : u8 {
  Ready,     // nothing prevents a checkpoint
  Settled,   // its program has run its callbacks and has released its devices
  Locked,    // no packet of a connection moves any more
  Captured,  // the program is saved and is stopped
  Durable,   // the image is on the disk
  Done,      // the program has ended or continues, as decided
  Restored,  // the copy exists and is stopped
};

enum class Task : u8 { Dump, Restore };

struct Begin {
  Task task = Task::Dump;
  std::string member;
  unsigned checkpoint = 0;
  bool stop = false;    // end the program afterwards
  std::string attempt;  // of Restore: the name of its decision
  unsigned timeout_seconds = 60;
};

// One end of a TCP connection that leads out of a member's program.
struct JobConnection {
  Endpoint local, remote;
  u8 state = 0;      // InetSocket::State
  bool held = true;  // false: no process has it; the kernel is still establishing or closing it
  bool may_close = false;  // its process has a callback that may close it before the dump
  std::string owner;       // "process 12 (server): descriptor 5"
};

struct Reached {
  Stage stage = Stage::Ready;
  std::string node;  // equal for members in one network namespace of one machine
  std::vector<JobConnection> connections;
  std::string report;  // of Durable: what the member has written, as JSON
};

Bytes encode(const Begin &b);
Bytes encode(const Reached &r);
std::optional<Begin> parse_begin(ByteView body);
std::optional<Reached> parse_reached(ByteView body);

}  // namespace ckpt::tools
