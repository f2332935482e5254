// SPDX-License-Identifier: Apache-2.0
//
// What the client (libckpt-ocl, in the application) and its proxy (ckpt-ocl-proxy, with the real
// driver) share: one memfd, `ckpt-ring`, and a socket that carries descriptors, what does not fit
// the ring, and the news that the other side is gone.
//
//   Header | command ring (client → proxy) | completion ring (proxy → client) | reply | staging
//
// Commands go one way and are batched; a command with kSync is answered in the reply area, one at a
// time. A command that makes the device work is answered once more, when it is done, by a
// Completion. Transfers go through staging, which the client allocates (facts/opencl.md: a round
// trip costs 10 µs, a one-way call 2 µs; the copy runs at memory speed).
//
// Both protocols are versioned (kWireVersion): a restored program carries the client of its day.
#pragma once

#include <atomic>

#include "common/base/bytes.h"

namespace ckpt::ocl {

inline constexpr u32 kWireVersion = 1;
inline constexpr u32 kWireMagic = 0x434f4b43;  // "CKOC"

inline constexpr size_t kCommandRingBytes = 1u << 20;
inline constexpr u32 kCompletions = 4096;  // a power of two
inline constexpr size_t kReplyBytes = 64u << 10;
inline constexpr size_t kStagingBytes = 32u << 20;
// A larger payload goes over the socket: a program's source, say.
inline constexpr size_t kMaxInRing = 64u << 10;
// Largest piece of a transfer; longer ones are cut and pipelined.
inline constexpr size_t kMaxPiece = 4u << 20;

// What is not a function of opencl.api. Numbers are append-only, and below 64.
enum class Op : u16 {
  Release = 1,        // {u8 kind, u64 object}
  Info = 2,           // {u8 InfoOf, u64 object, u64 device, index or 0, u32 param}: sync, the value
  KernelFacts = 3,    // {u64 kernel}: sync, {u32 n, n × {u32 address qualifier or 0, str type}}
  KernelArgs = 4,     // {u64 kernel, u32 n, n × {u32 index, u64 size, u8 ArgKind, value}}
  ProgramSource = 5,  // {u64 context, str source}; makes a program
  ProgramBinary = 6,  // {u64 context, u32 n, n × {u64 device, str container}}; makes a program
  Read = 7,           // {u64 queue, u64 mem, u64 offset, u64 size, u64 staging, waits}
  Write = 8,          // {the same}, and the bytes themselves when staging is kInline
  ReadRect = 9,     // {u64 queue, u64 mem, u64 origin[3], u64 region[3], u64 row, u64 slice pitch,
  WriteRect = 10,   //  u64 staging, waits}; staging holds the region without gaps
  Peek = 11,        // {u64 mem, u64 offset, u64 size, u64 place, u8 in the tool's staging}: sync
  Poke = 12,        // {the same}: sync
  Staging = 13,     // {u64 bytes}: sync; the tool's memfd comes on the socket
  Park = 14,        // {}: sync; the client goes away and comes back by Adopt
  MapDevices = 15,  // {u32 n, n × {u64 number, u8 used, str platform, str name, u32 nth}}: sync,
                    // n × {u8 there, str platform, str name, u32 nth}: what stands for each; then
                    // n × str UUID, which older proxies do not say
  StagingEnd = 16,  // {}: sync; forget the tool's memfd
  CompileProgram =
      17,  // {u64 program, devices, str options, u32 n, n × {u64 header, str name}}: sync
  LinkProgram = 18,  // {u64 context, devices, str options, u32 n, n × u64 program}; makes a
                     // program. devices: {u32 n, n × u64}
  CreateImage = 20,  // {u64 context, u64 flags, u32 channel order, u32 channel type, u32 image
                     //  type, u64 width, height, depth, layers, row pitch, u64 buffer or 0, u64
                     //  bytes of an element or 0}; makes an image: sync, {u64 bytes of an element}
  ReadImage = 21,    // {u64 queue, u64 image, u64 origin[3], u64 region[3], u64 staging, waits};
  WriteImage = 22,   //  staging holds the region without gaps
  SubDevices = 23,   // {u64 device, u32 n, n × i64 property, u8 whole device if it cannot, u32 n,
                     //  n × u64 number or 0}; sync, {u32 how many there are}
  KernelSubGroup = 24,  // {u64 kernel, u64 device, u32 param, str input}: sync, the value
  CheckNeeds = 25,  // {str needs}: sync, {u32 n, n × str}: why the devices that are shown cannot
                    // take over a program that needs this (client/needs.h)
  Nothing = 26,     // {}: sync; all that was sent before has been carried out
  Settle = 40,      // {u64 queue}: a completion once all that was enqueued is over
};
inline constexpr u16 kFirstApiOp = 64;

enum class InfoOf : u8 {
  Platform,
  Device,
  Program,
  ProgramBuild,
  Kernel,
  KernelArg,
  KernelWorkGroup,
  ImageFormats  // of a context; `device or 0` are the flags, `param` is the image's type
};
enum class ArgKind : u8 { Bytes, Mem, Local, Sampler };

inline constexpr u64 kInline = ~u64{0};  // Write: the bytes follow

enum CommandFlags : u16 {
  kSync = 1,      // wants a Reply
  kOnSocket = 2,  // the payload of `bytes` bytes comes on the socket
};

struct CommandHeader {
  u32 bytes;  // of the payload; 0xffffffff: the ring goes on at its start
  u16 op;
  u16 flags;
  u64 made;  // number of the object or event that this command makes; 0: none, and so nobody hears
             // when it is over
};
static_assert(sizeof(CommandHeader) == 16);
inline constexpr u32 kWrap = 0xffffffff;

// A command on the device is done. Times are the driver's own, in ns; 0 where it gave none.
struct Completion {
  u64 event;
  i32 status;  // CL_COMPLETE or an error
  u32 unused;
  u64 queued, submitted, started, ended;
};
static_assert(sizeof(Completion) == 48);

struct Header {
  u32 magic;
  u32 version;

  // Written by the client.
  alignas(64) std::atomic<u64> command_head;
  std::atomic<u64> completion_tail;
  std::atomic<u32> client_waits;       // somebody sleeps on client_bell
  std::atomic<u32> client_wants_room;  // … until the command ring has room

  // Written by the proxy.
  alignas(64) std::atomic<u64> command_tail;
  std::atomic<u64> completion_head;
  std::atomic<u32> proxy_waits;  // it sleeps on proxy_bell
  std::atomic<u32> reply_ready;
  std::atomic<i32> reply_status;
  std::atomic<u32> reply_bytes;
  std::atomic<u32> reply_on_socket;

  // Futexes.
  alignas(64) std::atomic<u32> client_bell;
  alignas(64) std::atomic<u32> proxy_bell;
};

inline constexpr size_t kCommandsAt = 4096;
inline constexpr size_t kCompletionsAt = kCommandsAt + kCommandRingBytes;
inline constexpr size_t kReplyAt = kCompletionsAt + kCompletions * sizeof(Completion);
inline constexpr size_t kStagingAt = (kReplyAt + kReplyBytes + 4095) / 4096 * 4096;
inline constexpr size_t kRingBytes = kStagingAt + kStagingBytes;
static_assert(sizeof(Header) <= kCommandsAt);

// The greeting, first message on the socket: {u32 version, u64 token} + memfd, then the devices:
// {u32 platforms, each {str name, u32 devices, each {u64 type, str name}}}, {u32 pid of the proxy},
// which older ones do not say
inline constexpr u16 kGreeting = 1;
inline constexpr u16 kPayload = 2;  // of a command with kOnSocket, or of a reply
inline constexpr u16 kStagingFd = 3;

}  // namespace ckpt::ocl
