// SPDX-License-Identifier: Apache-2.0
//
// What tools, agents and session keepers say to each other, over UNIX sockets with the frames of
// common/ipc/unix_socket.h. A restored program carries the agent of the day it was dumped, so this
// is a format with a version: a message is never changed, only added, and both sides say their
// version first.
//
//   session keeper  ckpt-run or ckpt-restore, the parent of the program. Listens on session.sock in
//                   a folder of its own (CKPT_SESSION names the socket); starts driver proxies;
//                   outlives what CRIU does to the program.
//   agent           a thread in a process of the program that uses an API we keep (or our C API).
//                   Listens on agent-*.sock in the same folder while it is running.
//   tool            ckpt-dump and ckpt-restore: drive agents through the life cycle.
//
// Dump: the tool connects to each agent and asks, in this order, Hello, Preflight, Quiesce, Save,
// Detach. A hang-up before Detach is answered undoes everything. With Detach the agent receives the
// read end of a pipe, hangs up, closes its socket and holds nothing but that pipe, in which it
// waits for its *word*: "continue" (the dump is over and the image good), "failed" (it is over,
// there is no image; end of file means the same, so that a killed tool leaves the program running)
// or "restored" (this is a copy; here is its new session). The word is the only thing that tells a
// restored copy from the original: CRIU restores the pipe as any other, and ckpt-restore hands in
// one of its own for it (criu restore --inherit-fd).
//
// Restore: after "restored" the agent connects to the new session's socket, says Restored, and the
// tool at the other end asks Hello, Attach, Load, Resume.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::protocol {

inline constexpr u32 kVersion = 1;

// Names of the sockets in a session's folder.
inline constexpr std::string_view kSessionSocket = "session.sock";
inline constexpr std::string_view kAgentSocketPrefix = "agent-";
inline constexpr const char *kSessionVariable = "CKPT_SESSION";

// The agent's thread, by which a process that has one is known while it does not listen: in a
// checkpoint from Detach on, and until it is back at its devices.
inline constexpr const char *kAgentThread = "ckpt-agent";

enum class State : u8 { Running, Quiesced, Saved, Detached, Attached, Loaded, Suspended };

enum class Type : u16 {
  // Answers to any request.
  Ok = 1,      // {}
  Failed = 2,  // {str what, str hint}

  // Tool to agent.
  Hello = 10,  // {u32 version, str tool}; answered by Welcome
  Welcome =
      11,  // {u32 version, u32 pid in its own namespace, u8 State, u32 n, n × str participant}
  Preflight = 12,      // {}; answered by Reasons
  Reasons = 13,        // {u32 n, n × str}: why a checkpoint would fail; none: it may be tried
  RemarksWanted = 29,  // {}: what else there is to say of the program's use of devices; answered by
                       // Reasons. Older agents refuse it
  Quiesce = 14,        // {u32 timeout in ms}: new calls wait, running kernels finish
  Save = 15,     // {u32 slots, u32 slot bytes} + staging memfd of slots × slot bytes; answered by
                 // Region and SlotFull as they come, and Saved at the end (or Failed)
  Saved = 16,    // {str needs}: JSON array, what a device must offer to take this process over
  Detach = 17,   // {} + read end of the word pipe; answered by Ok, and the agent hangs up
  Attach = 18,   // {str session socket}: connect to new devices and rebuild the objects there
  Load = 19,     // {u32 slots, u32 slot bytes} + staging memfd; answered by Ok. Then the tool sends
                 // Region and SlotFull, and LoadEnd, which is answered by Ok
  LoadEnd = 20,  // {}
  Resume = 21,   // {}: the gate opens; answered by Ok
  CheckpointFailed = 22,  // {str what, str hint}: the outcome of a CheckpointWanted; answered by Ok

  // Suspend, in the place of Save and Detach: the program stays, and holds nothing of a device. The
  // agent goes on listening; nothing but these and Hello is answered until Wake.
  Suspend = 24,    // {str folder, or empty: host memory}: contents go there; answered by Suspended
  Suspended = 25,  // {u64 bytes}
  RequirementsWanted = 26,  // {}: answered by Saved
  DeviceMap =
      27,     // {str participant, u32 n, n × {str from, str to}}: before Attach or Wake; answered
              // by Ok. Older agents refuse it, and map their devices themselves
  Wake = 28,  // {str session socket}: Attach, Load and Resume in one; answered by Ok

  Increment = 23,  // {16 bytes: the image that the next Save is for, 16 bytes: the image that it is
                   // an increment on, zeros: none}; answered by Ok. Older agents refuse it, and
                   // then save everything
  // Data in staging slots; the filler sends Region once before its first slot.
  Region = 30,      // {u32 region, str name, u64 bytes in all}
  SlotFull = 31,    // {u32 slot, u32 region, u64 offset, u32 bytes}
  SlotFree = 32,    // {u32 slot}: the receiver is done with it
  RegionSame = 33,  // {u32 region, str name, u64 bytes}: in a Save after Increment, in the place of
                    // Region and its slots: these bytes are what they are in the parent image

  // To a session keeper.
  ProxyWanted =
      40,           // {u32 version, str api} + stdout, stderr of the process. On success the keeper
                    // hands this very connection to a new proxy, which speaks first; else Failed
  ProxyAgain = 41,  // {u32 version, u64 token}: hands the connection to the proxy parked under it
  DumpBegin = 42,   // {str image}: answered by Ok. The connection stays open (CRIU inherits it)
                    // until the dump is over; a hang-up without DumpDone wakes the program again
  DumpDone = 43,    // {str image}: the image is durable, the program is about to be killed
  CheckpointWanted = 44,  // {u32 version, str image, u32 flags (see below)}: run ckpt-dump on this
                          // program; answered by Ok or Failed
  Restored = 45,  // {u32 version, u32 agent}: after the word "restored"; the peer now drives

  ContentsKept = 46,    // {u32 version, u64 token} + files: device memory, which the process cannot
                        // hold while CRIU looks; answered by Ok
  ContentsWanted = 47,  // {u32 version, u64 token}: answered by Ok + those files, then gone there
  ProxyDrop = 48,      // {u32 version, u64 token}: the proxy parked under it is not needed any more
  DevicesChosen = 49,  // {u32 version, u32 n, n × {str api, u32 k, k × str device}}: for proxies
                       // that are started from now on
  ProxyFor = 51,       // {u32 version, str api, str device} + stdout, stderr: as ProxyWanted, for
                       // that device alone, by its UUID; the choice for others stays as it is

  // Keeper to proxy, over the proxy's control socket.
  Adopt = 50,  // {} + connection: a parked client is back
};

// Flags of CheckpointWanted.
inline constexpr u32 kStopAfter = 1;  // do not leave the program running
inline constexpr u32 kOverwrite = 2;

// The word, written in one piece into the pipe: u32 size of the rest, then these fields.
enum class Outcome : u8 { Continue = 'C', Restored = 'R', Failed = 'F' };
//   {u8 Outcome, u32 agent (its number in the image),
//    str: Restored: session socket of the new keeper; Failed: why; Continue: empty}
// ckpt_checkpoint() returns "the image is written" on Continue: a dump that CheckpointWanted asked
// for says it once the image is durable.
inline constexpr u32 kMaxOutcomeBytes = 4096;

}  // namespace ckpt::protocol
