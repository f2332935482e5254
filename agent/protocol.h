// SPDX-License-Identifier: Apache-2.0
//
// The protocol between tools, agents and session keepers, over UNIX sockets with the frames of
// common/ipc/unix_socket.h. A restored program contains the agent that it was dumped with, which
// may be years old. So the protocol has a version: messages are only added and never changed, and
// both sides state their version first.
//
//   session keeper  ckpt-run or ckpt-restore, the parent of the program. Listens on session.sock in
//                   a folder of its own (CKPT_SESSION names the socket), starts driver proxies, and
//                   stays alive while CRIU dumps or kills the program.
//   agent           a thread in each process of the program that uses a supported API (or our C
//                   API). Listens on agent-*.sock in the same folder while the process is running.
//   tool            ckpt-dump and ckpt-restore: take agents through the life cycle.
//
// Dump. The tool connects to each agent and sends Hello, Preflight, Quiesce, Save and Detach, in
// this order. A hang-up before Detach is answered undoes everything. With Detach the agent receives
// the read end of the *outcome pipe*, hangs up, closes its socket, keeps only that pipe open and
// waits there for the outcome:
//
//   Continue   the dump is over and the image is complete
//   Failed     the dump is over and there is no image; end of file means the same, so that a tool
//              that is killed leaves the program running
//   Restored   this process is a restored copy; the message names its new session
//
// Nothing but the outcome distinguishes a copy from the original: CRIU restores the pipe like any
// other descriptor, and ckpt-restore passes its own pipe in its place (criu restore --inherit-fd).
//
// Restore. After Restored the agent connects to the socket of the new session and sends Restored;
// the tool at the other end then sends Hello, Attach, Load and Resume.
#pragma once

#include "common/base/bytes.h"

namespace ckpt::protocol {

inline constexpr u32 kVersion = 1;

// Names of the sockets in a session's folder.
inline constexpr std::string_view kSessionSocket = "session.sock";
inline constexpr std::string_view kAgentSocketPrefix = "agent-";
inline constexpr const char *kSessionVariable = "CKPT_SESSION";
// Set for a program in a user namespace (ckpt-run --isolate, rootless containers) and its proxies:
// CRIU cannot read shared memory without a name there (proc_map_files_get_link() in the kernel's
// fs/proc/base.c).
inline constexpr const char *kIsolatedVariable = "CKPT_ISOLATED";
// A file in the session's folder while a dump is under way, on which the dump holds a lock
// (flock(2)): an agent that starts meanwhile would take no part in it, so it waits.
inline constexpr std::string_view kDumpMarker = "dump-under-way";

// The name of the agent's thread. It marks a process that has an agent while that agent does not
// listen: from Detach until the process has its devices again.
inline constexpr const char *kAgentThread = "ckpt-agent";

enum class State : u8 { Running, Quiesced, Saved, Detached, Attached, Loaded, Suspended };

// How much of its devices a suspended process has given back. Memory: the memory whose contents are
// on the host; what the driver keeps (contexts, arrays, device variables) is still there. Full:
// everything. None: it is not suspended.
enum class Depth : u8 { None, Memory, Full };

// Of a piece of device memory that processes share. Pending: its owner has not loaded its contents
// yet. Lost: the owner has ended, and the contents with it.
enum class ShareState : u8 { Unknown, Pending, There, Lost };

enum class Type : u16 {
  // Answers to any request.
  Ok = 1,      // {}
  Failed = 2,  // {str what, str hint}

  // Tool to agent.
  Hello = 10,  // {u32 version, str tool}; answered by Welcome
  Welcome =
      11,  // {u32 version, u32 pid in its own namespace, u8 State, u32 n, n × str participant}
  Preflight = 12,      // {}; answered by Reasons
  Reasons = 13,        // {u32 n, n × str}: the blockers, why a checkpoint would fail
  RemarksWanted = 29,  // {}: remarks on the program's use of devices; answered by Reasons. Older
                       // agents refuse it
  Quiesce = 14,        // {u32 timeout in ms}: new calls wait, running kernels finish
  Save = 15,     // {u32 slots, u32 slot bytes} + staging memfd of slots × slot bytes; answered by
                 // Region and SlotFull messages, then by Saved or Failed
  Saved = 16,    // {str requirements}: a JSON array, what a device must offer to this process
  Detach = 17,   // {} + read end of the outcome pipe; answered by Ok {str requirements, as of now;
                 // older agents send none}, and the agent hangs up
  Attach = 18,   // {str session socket}: connect to new devices and rebuild the objects there
  Load = 19,     // {u32 slots, u32 slot bytes} + staging memfd; answered by Ok. Then the tool sends
                 // Region and SlotFull, and LoadEnd, which is answered by Ok
  LoadEnd = 20,  // {}
  Resume = 21,   // {}: the gate opens; answered by Ok
  CheckpointFailed = 22,  // {str what, str hint}: the outcome of a CheckpointWanted; answered by Ok

  // Suspend replaces Save and Detach: the process stays alive without devices. The agent still
  // listens, and answers only these requests and Hello until Wake.
  Suspend = 24,    // {str folder, or empty: host memory}: where contents go, unless they went
                   // somewhere by Keep; answered by Suspended
  Suspended = 25,  // {u64 bytes}
  RequirementsWanted = 26,  // {}: answered by Saved. Older agents refuse it while the program runs
  DeviceMap =
      27,     // {str participant, u32 n, n × {str from, str to}}: before Attach or Wake; answered
              // by Ok. Older agents refuse it and choose their devices themselves
  Wake = 28,  // {str session socket}: Attach, Load and Resume in one; answered by Ok

  Increment = 23,    // {16 bytes: id of the image that the next Save writes, 16 bytes: id of its
                     // parent, zeros: none}; answered by Ok. Older agents refuse it and save
                     // everything
  LossWanted = 34,   // {}: answered by Reasons: why the program has lost its devices; none: it has
                     // them. Older agents refuse it
  WaitsWanted = 35,  // {}, after Quiesce; answered by Waits. Older agents refuse it
  Waits = 36,        // {u32 n, n × {str name, u64 ms}}: for how long Quiesce has waited for each
                     // participant's devices, and for "callbacks" of the program
  DevicesWanted = 37,    // {}: answered by Reasons: the names of the devices that the process uses.
                         // Older agents refuse it
  CallbacksWanted = 38,  // {}: answered by Reasons: a text for each `before` callback of the
                         // program, which may close what no image can hold. Older agents refuse it
  CompileWanted = 39,    // {}, after Attach; answered by Waits: for how long each participant has
                         // compiled kernels. Older agents refuse it
  TrafficWanted = 94,    // {}, of a program that runs or is suspended: answered by Traffic. Older
                         // agents refuse it
  Traffic =
      95,  // {u64 bytes of device memory that a move takes along, u64 ns since the program has
           // its devices, or for how long it had them, u32 n, n × {str participant, u8 1: the
           // rest is known, u64 calls that waited since then, u64 bytes both ways, u64 ns of
           // the shortest wait for an answer, u64 bytes a second; 0: not known}}
  // Data in staging slots; the sender sends Region once before the first slot of a region.
  Region = 30,      // {u32 region, str name, u64 total bytes}
  SlotFull = 31,    // {u32 slot, u32 region, u64 offset, u32 bytes}
  SlotFree = 32,    // {u32 slot}: the receiver is done with it
  RegionSame = 33,  // {u32 region, str name, u64 bytes}: in a Save after Increment, instead of
                    // Region and its slots: the contents equal those in the parent image

  // Contents without slots, for an agent that keeps them in a file of its own during the dump. It
  // is made of memory, cannot change its size, and the tool reads it as long as it needs to.
  ContentsReadable = 60,  // {}: before Save: the tool can read such a file; answered by Ok. Older
                          // agents refuse it and fill slots
  ContentsFile = 61,      // {u64 bytes} + the file: in a Save, from the agent, once
  ContentsAt = 62,  // {u32 region, u64 offset, u64 bytes, u64 at}: instead of SlotFull: where they
                    // are in that file; kZeros: nowhere, all are zero
  Prepare = 63,     // {u64 bytes}: before Quiesce: take at most so much host memory for contents
                    // already; answered by Ok. Older agents refuse it
  CopyAhead = 64,   // {u32 rounds}: before Quiesce: copy contents while the program runs; answered
                    // by Ok. Older agents refuse it

  // Device memory that its device looks at before it is copied (docs/CUDA.md).
  ParentChunks = 80,  // {u64 n} + a file with n × {u64 low, u64 high}: addresses of chunks of the
                      // parent image, and a socket that answers ChunkWanted: before Quiesce, after
  // SurveyWanted: the Save may leave these chunks out, because the dump ends the
  // program; answered by Ok. Older agents refuse it and send all chunks
  ChunkKnown = 81,  // {u32 region, u64 offset, u32 bytes, u64 low, u64 high}: in a Save, instead of
                    // SlotFull: the chunk is one of those
  SurveyWanted =
      82,         // {u64 seed of the image's addresses}: before Quiesce: the Save tells what its
                  // devices saw; answered by Ok {u8 1: they can look}. Older agents refuse it
  Surveyed = 83,  // {u64 bytes that are zero and were not read, u32 n, n × str: why a device
                  // could not look}: in a Save after SurveyWanted, from the agent, before Saved
  ZerosLoadable =
      84,        // {}: before Load: ZerosAt may take the place of slots; answered by Ok. Older
                 // agents refuse it, and so does an agent if a device of it cannot write zeros
  ZerosAt = 85,  // {u32 region, u64 offset, u64 bytes}: in a Load: they are zero

  // Contents without slots, for a tool that has them in a file in memory when the load begins.
  ContentsLoadable = 88,  // {u64 bytes} + the file, which cannot shrink: after Attach, before Load:
                          // ContentsIn may take the place of slots; answered by Ok {str the
                          // participant that loads its regions so}. Older agents refuse it,
                          // and so does an agent if no participant of it can, or there is no room
  ContentsIn = 89,  // {u32 region, u64 offset, u64 bytes, u64 at, u64 ready}: in a Load, instead of
                    // SlotFull: they are in that file at `at`, and in one of its pieces
                    // (kFilePieceBytes). `ready`: all pieces with a byte before this can be
                    // page-locked

  // Contents that a device gets while the program already runs: from the tool to the process with
  // the device, over a socket of their own, on which Load {u32 slots, u32 slot bytes} + staging
  // memfd comes first, then SlotFull and SlotFree. If that process cannot take a piece: Failed.
  ContentsArrive = 121,  // {u32 n, n × {str region, u64 bytes}} + that process's end: tool to
                         // agent, after Attach, before Load, which then leaves out what is taken;
                         // answered by Ok {n × u8 1: taken}. Older agents refuse it
  ArrivalWanted = 122,   // {u32 number among those taken}: a command waits for this region
  ArrivalDropped = 123,  // {u32 number}: the region does not exist any more

  ChunkWanted = 86,  // {u64 low, u64 high, u32 bytes}: agent to the process behind that socket:
                     // answered by Ok {the chunk's bytes}

  // Device memory that another process, its *owner*, holds while the program has no devices
  // (driver-checkpoint/owner/memory_owner.h).
  OwnerWanted = 110,  // {}: before Quiesce: start the owner, if the program was started for one;
                      // answered by Ok {u8 1: the Save may send ContentsLater, str why not}. Older
                      // agents refuse it
  ContentsLater = 111,  // {u8 1: the program may run meanwhile; 0 or missing: not} + a socket of
                        // the owner, which sends Drained: in a Save, from the agent, once, after
                        // ContentsFile
  ContentsDue = 112,    // {u32 region, u64 offset, u64 bytes, u64 at}: as ContentsAt, but the owner
                        // writes them after the Save
  Drained = 113,    // {u64 n}: owner to tool: the first n of ContentsDue are there. Failed: no more
                    // will follow
  OwnerDrop = 114,  // {}: tool to owner: the image is complete, and the program has ended
  OwnerBegin = 115,   // {u32 n, n × str UUID}: program to owner, which sends Ok {u64 token} first:
                      // prepare these devices; answered by Ok
  MemoryGiven = 116,  // {u32 n, n × {u64 key, u64 bytes}} + n handles of physical memory; answered
                      // by Ok
  DrainWanted = 117,  // {u64 bytes, u64 n, n × {u64 key, u64 offset, u64 bytes, u64 at}, u8 1: the
                      // program goes on meanwhile; 0 or missing: not} + a file of so many bytes, a
                      // socket of a tool: copy there; answered by Ok {u64 bytes that are copied
                      // before MemoryWanted is answered}
  OwnerLeave = 118,   // {}: keep the memory after the hang-up, until ProxyAgain or the session's
                      // end; answered by Ok
  OwedAllowed = 120,  // {}: before Quiesce: the program goes on after the dump, and the Save may
                      // leave contents to a process that copies them meanwhile; answered by Ok.
                      // Older agents refuse it
  MemoryWanted = 119,  // {}: answered, when nothing is copied from them any more, by MemoryGiven
                       // with the next of them; n = 0: there are no more

  // Before Detach or Suspend, where a program has several processes: all are taken this far before
  // any of them goes further.
  Keep = 66,  // {str folder, or empty: host memory}: after Quiesce, instead of Save: contents go
              // there; answered by Suspended. Older agents refuse it, and Suspend does it
  Lock =
      67,  // {}: after Save or Keep: device drivers are locked; answered by Ok. Older agents refuse
           // it, and Detach or Suspend does it. Also before Deepen

  // Depths of a suspend.
  SuspendMemory = 70,  // {str folder, or empty}: as Suspend, but to Depth::Memory where an API of
                       // the process has that; answered by Suspended. Older agents refuse it
  DepthWanted = 71,    // {}: answered by DepthIs. Older agents refuse it, and know only Depth::Full
  DepthIs = 72,        // {u8 Depth}
  Deepen = 73,         // {}, at Depth::Memory: goes to Depth::Full; answered by Suspended. After a
                       // failure, or a Lock without it, the process is where it was

  // To a session keeper.
  ProxyWanted =
      40,           // {u32 version, str api} + stdout, stderr of the process. On success the keeper
                    // passes this connection to a new proxy, which sends first; else Failed
  ProxyAgain = 41,  // {u32 version, u64 token}: passes the connection to the proxy parked under it
  DumpBegin = 42,   // {str image}: answered by Ok. The connection stays open (CRIU inherits it)
                    // until the dump is over; after a hang-up without DumpDone the keeper lets the
                    // program continue
  DumpDone =
      43,  // {str image, optional: str host}: the image is durable, the program is about to be
           // killed. With a host: it goes on there (ckpt-migrate)
  CheckpointWanted = 44,  // {u32 version, str image, u32 flags (see below)}: run ckpt-dump on this
                          // program; answered by Ok or Failed
  Restored = 45,  // {u32 version, u32 agent}: after the outcome Restored; the peer now sends
                  // requests

  ContentsKept = 46,    // {u32 version, u64 token} + files: device memory, which must not be in the
                        // process while CRIU dumps it; answered by Ok
  ContentsWanted = 47,  // {u32 version, u64 token}: answered by Ok + those files, which the keeper
                        // then closes
  ProxyDrop = 48,       // {u32 version, u64 token}: the proxy parked under it is no longer needed
  DevicesChosen = 49,   // {u32 version, u32 n, n × {str api, u32 k, k × str device}}: for proxies
                        // that are started later
  ProxyFor = 51,        // {u32 version, str api, str device} + stdout, stderr: as ProxyWanted, for
  // one device, given by its UUID; DevicesChosen still holds for other proxies. Also several of the
  // chosen devices, separated by commas

  // {u32 version, str api, u8 1: the next counts, str device} + stdout, stderr and folder of the
  // process, and a file with its environment (entries that end with 0), unless it is a restored
  // copy: as ProxyWanted or ProxyFor
  ProxyIn = 55,

  ChosenWanted = 65,  // {u32 version, str api}: answered by Ok {u32 n, n × str device}: what
                      // DevicesChosen says for the API; n = 0: all. Older keepers refuse it

  FilesWanted = 69,  // {u32 version}: write those files of the session's folder again that were
                     // removed; answered by Ok. Older keepers refuse it

  CheckpointFlagsWanted = 57,  // {u32 version}: answered by Ok {u32: the flags of CheckpointWanted
                               // that the keeper knows}. Older keepers refuse it, and ignore
                               // kWithFiles

  ImageWritten = 56,  // {str image}: an image is complete, and the program continues; answered by
                      // Ok. Older keepers refuse it

  // Device memory that processes of the program share (tools/session/device_shares.h). Each begins
  // with {u32 version, u64 token of the process, 16 bytes: the name of the piece}. Older keepers
  // refuse them.
  ShareOffered = 140,  // {…, u64 bytes, str UUID of the device, u8 1: this process has exported it,
                       // u8 1: it has its contents} + its handle; answered by Ok. This process owns
                       // the piece
  ShareWanted = 141,  // {…, u8 1: this process has used it before}; answered by Ok {u8 ShareState},
                      // and if it is There, {u64 bytes, str UUID} + its handle
  ShareOwned = 142,   // {…}; answered by Ok {u8 1: this process owns it and saves its contents}
  ShareLoaded = 143,  // {…}, from the owner: it has its contents; answered by Ok
  ShareAway = 144,  // {…}: this process has given it back until the end of the checkpoint, or has
                    // not got it yet in a restored program; answered by Ok
  ShareDone = 145,  // {…}: this process uses it no more; answered by Ok

  EventBoardWanted = 147,  // {u32 version, u64 token of the process}: answered by Ok {} + the
                           // memory of events that processes of the program share
                           // (common/ipc/event_board.h). Older keepers refuse it

  StaysSuspended = 146,  // {u32 version}: the process that sends it is suspended. Unanswered: the
                         // connection stays, and its hang-up says that the keeper has ended. Older
                         // agents connect and send nothing

  // Program to a proxy for kGpuMemoryProxy, which sends Ok {} first.
  GpuMemoryWanted =
      68,  // {}: answered by Ok {u32 n, n × {str UUID, str PCI bus id, u64 free bytes}}

  // Keeper to proxy, over the proxy's control socket.
  Adopt = 50,  // {} + connection: a parked client is back
};

// Host memory that is taken before it is needed, unless a tool's Prepare says otherwise.
inline constexpr u64 kAheadBytes = u64{2} << 30;
inline constexpr u64 kZeros = ~u64{0};           // in ContentsAt
inline constexpr u64 kMostZeros = u64{1} << 31;  // in ZerosAt
// The file of ContentsLoadable is page-locked in pieces of this size.
inline constexpr u64 kFilePieceBytes = 32u << 20;

// In ProxyWanted, instead of an API: a process that answers GpuMemoryWanted. Older keepers refuse
// it.
inline constexpr std::string_view kGpuMemoryProxy = "cuda-memory";

// The same for a process that owns device memory during a dump.
inline constexpr std::string_view kMemoryOwnerProxy = "cuda-owner";

// Flags of CheckpointWanted.
inline constexpr u32 kStopAfter = 1;  // end the program after the dump
inline constexpr u32 kOverwrite = 2;
inline constexpr u32 kAsTemplate = 4;
inline constexpr u32 kWithFiles = 8;
inline constexpr u32 kCheckpointFlags = kStopAfter | kOverwrite | kAsTemplate | kWithFiles;

// The message in the outcome pipe, written at once: u32 size of the rest, then these fields.
enum class Outcome : u8 { Continue = 'C', ContinueOwed = 'O', Restored = 'R', Failed = 'F' };
//   {u8 Outcome, u32 agent (its number in the image),
//    str: Restored: session socket of the new keeper; Failed: why; otherwise empty}
// ContinueOwed, after ContentsLater {1}: as Continue, but these contents are not in their file yet.
// On Continue ckpt_checkpoint() reports that the image is written, so a dump that CheckpointWanted
// requested sends it only when the image is durable.
inline constexpr u32 kMaxOutcomeBytes = 4096;

}  // namespace ckpt::protocol
