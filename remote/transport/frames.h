// SPDX-License-Identifier: Apache-2.0
//
// The protocol between the node on which a program runs and the node that has its device
//
//   program ── ring ── ckpt-remote-proxy ══ connection ══ ckpt-devd ── ring ── ckpt-ocl-proxy
//                      (near relay)                       (far relay)
//
// The program's library and the proxy with the real driver speak the ring (ring/wire.h), as
// they do on one node. The two relays carry it over a connection: what one side puts into its ring,
// the relay at the other side puts into its own. They pass on payloads as they are, with two
// exceptions: descriptors do not travel, and the bytes in staging memory do.
//
//   clEnqueueWriteBuffer, 4 MiB in staging at 8 MiB
//     near   Command frame: header and payload; then the 4 MiB of its ring's staging
//     far    reads the 4 MiB to the same place of its ring's staging, then puts the command there
//   clEnqueueReadBuffer
//     far    remembers the place; at the completion: Completion frame, then the bytes
//     near   reads the bytes to the same place, then puts the completion into its ring
//
// The places are equal on both sides, because the client allocates staging memory and uses a place
// again only after the completion has come back.
//
// A frame is {u32 bytes of the body, u16 type, u16 0} and the body. The bytes of a transfer (the
// bulk) follow the body and are not counted in it: each side knows from the command how many there
// are (transfers.h), and so the receiver puts them where they belong without a copy.
//
// The first frame is Hello, except where munge authenticates the two sides. The server answers with
// Refused, or with what was asked for: Answer for the lists and checks of devices, Greeting for a
// program. Frames before the Greeting are small. Behind it, a connection with TLS is packed
// (packed_stream.h).
#pragma once

#include "common/base/bytes.h"

namespace ckpt::remote {

inline constexpr u32 kMagic = 0x4d524b43;  // "CKRM"
inline constexpr u32 kVersion = 8;

enum class Frame : u16 {
  // To the server.
  // {u32 magic, u32 version, u8 Purpose, str device IDs, u8 portable}
  Hello = 1,
  // What a check reads: {str}
  Question = 2,
  // {CommandHeader, payload}, bulk
  Command = 3,

  // Of a program that uses CUDA (remote/cuda/protocol.h).
  // {CallHeader, arguments}
  CudaCall = 4,
  // {u64 token}: the host function has returned
  CudaHostDone = 5,

  // {str}, as ServerCredential: before Hello (munge_exchange.h)
  Credential = 6,

  // From the server.
  // {str what, str hint}; then it hangs up
  Refused = 16,
  // {i32 exit code, str output}: of ckpt-ocl-proxy --list or --check
  Answer = 17,
  // The proxy's greeting (ring/wire.h), without its version and token
  Greeting = 18,
  // {i32 status, u64 bulk, blob}, bulk
  Reply = 19,
  // {Completion, u64 bulk}, bulk
  Completion = 20,
  // {u8 1: standard output, 2: standard error, bytes}: what the devices and the driver print
  Output = 21,
  // {str why}: the proxy has ended; then the server hangs up
  Ended = 22,
  // {ReplyHeader, results}
  CudaReply = 23,
  // {ReplyHeader, bytes}: contents of device memory, before the reply
  CudaData = 24,
  // {u64 token}: a stream waits for this host function
  CudaHost = 25,
  // {u32 uid}
  ServerUser = 26,
  ServerCredential = 27,
};

enum class Purpose : u8 {
  List = 1,
  Check = 2,
  Serve = 3,
  ListCuda = 4,
  ServeCuda = 5,
  CheckCuda = 6
};
constexpr bool is_check(Purpose p) { return p == Purpose::Check || p == Purpose::CheckCuda; }

struct FrameHeader {
  u32 bytes;
  u16 type;
  u16 zero;
};
static_assert(sizeof(FrameHeader) == 8);

// A body: the payload of a command or a reply, such as the source of a program.
inline constexpr size_t kMaxBody = 64u << 20;
// From a peer that has not been admitted yet.
inline constexpr size_t kMaxFirstBody = 64u << 10;

}  // namespace ckpt::remote
