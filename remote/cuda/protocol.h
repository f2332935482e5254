// SPDX-License-Identifier: Apache-2.0
//
// CUDA over a connection (remote/transport/frames.h): what the forwarding libcuda.so.1 in a program
// says to ckpt-cuda-server on the node that has the device.
//
//   program ── connection ── ckpt-cuda-server ── any real libcuda.so.1
//
// A call is one frame, Frame::CudaCall. Most calls are lines of cuda.api, and their bodies are
// derived from the function's type (codec.h); the others are those of Op below. The calls of one
// thread of the program, a lane, are executed in their order by one thread of the server, and a
// call begins after all one-way calls that were sent before it, of any lane. So what is ordered in
// the program is ordered on the device.
//
// Handles are virtual: a number that means the same as long as the program lives, whatever the
// driver at the other end calls the object. The client chooses it (handles.h). Kernels find the
// handle of a texture object in a cell of memory (client/handle_table.h). Device addresses are
// the real ones, since kernels get them in structures that cannot be translated. The client chooses
// where the arena lies that it cuts them from (Op::Arena).
#pragma once

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

// In front of the arguments of a call.
struct CallHeader {
  u32 lane;     // the thread of the program
  u16 op;       // the number of a line of cuda.api, or an Op
  u16 one_way;  // 1: no reply; an error is reported by the next synchronising call
  u64 context;  // the number of the thread's current context; 0: none
};
static_assert(sizeof(CallHeader) == 16);

// In front of the results of a reply, and in a Frame::CudaData of the bytes.
struct ReplyHeader {
  u32 lane;
  i32 status;  // a CUresult
};
static_assert(sizeof(ReplyHeader) == 8);

// Calls that are no line of cuda.api.
enum class Op : u16 {
  First = 0x4000,
  LaneEnded = First,  // {}: one way; the thread has ended
  // {u64 base (0: any), u64 bytes} -> {u64 base}: reserves device addresses, once for a connection
  Arena,
  // {u64 base, u64 bytes, i32 device}: physical memory behind a part of the arena
  Map,
  Unmap,  // {u64 base, u64 bytes}
  // {u64 number, blob}: a part of device code, which Load names; one way
  Code,
  // {u64 number of the library or module, u8 form, u32 n, n × u64 number of a part, JitOptions}
  // -> {u64 number, JitAnswer}; without the number if it fails
  Load,
  Global,  // {u64 library or module, str name} -> {u64 address, u64 bytes}
  // {u64 function} -> {u8 1: the driver judges a launch by the exact size of its grid, u32 n,
  // n × {u64 offset, u64 bytes}}
  Parameters,
  // {u64 function, 6 × u32 sizes, u32 shared, u64 stream, u32 n, n × LaunchAttribute, blob}
  Launch,
  // {u64 address, u64 stream, u8 async, bytes up to the end}
  Write,
  // {u64 address, u64 bytes, u64 stream, n × {u64 address, u64 bytes}}; the bytes come in frames
  // CudaData before the reply. -> the bytes of the n pieces, if the device has nothing to do then
  Read,
  // {u64 to, u64 from, u64 bytes, u64 stream, u8 async}
  Copy,
  // {u64 address, u64 pitch, u32 value, u32 bytes of it, u64 width, u64 height, u64 stream,
  // u8 async}
  Fill,
  // {Box, u64 stream, bytes up to the end}: a box of bytes to device memory
  WriteBox,
  ReadBox,   // {Box, u64 stream}: as Read
  CopyBox,   // {Box to, Box from, u64 stream, u8 async}
  HostCall,  // {u64 token, u64 stream}: Frame::CudaHost comes when the stream is there
  Settle,    // {}: waits for all work of the context, as cuMemFree does
  // {} -> {i32 error}: as Settle; the error of an earlier one-way call, which stays for the next
  // synchronising call. Without a context it waits for nothing
  Idle,
  // {u64 base, u64 bytes}: device memory that the program shares with the device; zeros on both
  // sides. Again for the same memory: zeros again
  Mirror,
  EndMirror,  // {u64 base}
  // {n × {u64 address, blob}}: what the program has changed there
  Push,
  // {u32 gap (changes.h)}: what the device has changed, in frames CudaData: {n × {u64 address,
  // blob}}
  Fetch,
  MakeArray,  // {u64 number, CUDA_ARRAY3D_DESCRIPTOR} -> {u64 number}
  // {u8 1: a surface, CUDA_RESOURCE_DESC with a number as its array, u8 1: CUDA_TEXTURE_DESC, u8 1:
  // CUDA_RESOURCE_VIEW_DESC} -> {u64 object}, as kernels know it
  MakeTexture,
  EndTexture,  // {u8 1: a surface, u64 object}
  // {JitOptions, u32 n, n × {u32 type, u64 number of a part, str name, JitOptions}} -> {JitAnswer,
  // blob}: the device linker
  Link,
  // {u64 cell, as MakeTexture} -> {u64 cell}: the object's handle is written to the cell, an
  // address of 8 bytes in the arena
  MakeTextureAt,
  EndTextureAt,  // {u8 1: a surface, u64 cell}
  // {u64 stream, u64 address, u64 value, u32 flags, u8 bytes of it, u8 1: wait for it}
  StreamValue,
  MakeMemory,   // {u64 number, u64 bytes, i32 device}: physical memory, which is mapped nowhere
  EndMemory,    // {u64 number}: it is mapped nowhere any more
  MapMemory,    // {u64 base, u64 bytes, u64 number}: the physical memory behind a part of the arena
  UnmapMemory,  // {u64 base, u64 bytes}: all that MapMemory has put there
  SetAccess,    // {u64 base, u64 bytes, i32 device, u32 CUmemAccess_flags}: of such memory
  // {u64 address, u64 bytes, for each piece of kAheadBytes its PieceHash, or none}: which pieces of
  // the arena differ now, beside the program's work. In a frame CudaData for each piece: {u8 1: it
  // differs, its bytes if so}
  ReadChanged,
  // {u32 n, n × i32}: for each device of the program its number here, or -1: it is not here. One
  // way, and in front of all other calls. Without it the numbers are the same
  Devices,
  // {u64 context}: one way: the device's primary context is empty again, so all that was made in it
  // has ended
  Emptied,
  MakeMipmap,   // {u64 number, CUDA_ARRAY3D_DESCRIPTOR, u32 levels} -> {u64 number}
  MipmapLevel,  // {u64 number, u64 mipmapped array, u32 level} -> {u64 number}: the level, an array
  Last,
};

// What a Launch may carry: an attribute of cuda.h that is no pointer.
struct LaunchAttribute {
  u32 id;
  std::byte value[64];
};
static_assert(sizeof(LaunchAttribute) == 68);

// Rows of bytes in device memory, or in an array.
struct Box {
  u64 address;       // in an array: bytes in front of it in its row
  u64 pitch, slice;  // bytes from row to row, and from slice to slice
  u64 width, height, depth;
  u64 array = 0;     // its number; 0: memory
  u64 y = 0, z = 0;  // its first row and slice there
};
static_assert(sizeof(Box) == 72);

// Bulk data travels in pieces of at most this size.
inline constexpr u64 kPieceBytes = 1u << 20;
// And of at most this size if only what has changed travels.
inline constexpr u64 kAheadBytes = 256u << 10;
// Pieces that are read along with another one.
inline constexpr size_t kMostAlong = 8;
inline constexpr u64 kMostAlongBytes = 256u << 10;
// Threads of a program at a time.
inline constexpr size_t kMaxLanes = 1024;
// A part of device code.
inline constexpr u64 kMaxCodeBytes = 1u << 30;

}  // namespace ckpt::remote::cuda
