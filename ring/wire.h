// SPDX-License-Identifier: Apache-2.0
//
// The protocol between the client (libckpt-ocl, in the application) and its proxy (ckpt-ocl-proxy,
// with the real driver). They share one memfd, `ckpt-ring`, and a Unix socket. The socket carries
// descriptors and payloads that do not fit the ring; if one side dies, the other sees it hang up.
//
// The ring
//
//   header       4 KiB            indices and bells; in its second half, what kernels print
//   commands     1 MiB            client → proxy
//   completions  4096 × 48 bytes  proxy → client
//   reply        64 KiB           proxy → client
//   staging      32 MiB           both
//
//   clEnqueueWriteBuffer       client: data → staging; header and payload → command ring;
//                                      command_head += length; ring proxy_bell
//                              proxy:  read the command, call the driver, command_tail += length
//   the driver has finished    proxy:  Completion → completion ring; completion_head += 1;
//                                      ring client_bell
//   the next OpenCL call       client: read the completion, completion_tail += 1
//
// Commands go one way and are batched. A command with kSync gets its status and bytes in the reply
// area; only one such command is under way. A command with an event gets a Completion when the
// device has finished it. Transfers pass through staging memory, which the client allocates.
//
// Memory ordering. Each index has one writer. A writer copies its data and then stores the index
// with release order or stronger; the reader loads the index with acquire order before it reads the
// data. The indices count bytes or records since the start and never wrap, so `head - tail` is the
// fill level and a ring can be completely full.
//
// Sleeping. Each side sleeps on a bell, a futex word (futex(2)).
//
//   reader: seen = bell; test the index; waits += 1; futex_wait(bell, seen); waits -= 1
//   writer: store the index; bell += 1; if waits > 0: futex_wake(bell)
//
// The reader's `waits += 1` before it compares the bell, and the writer's `bell += 1` before it
// loads `waits`, are sequentially consistent. With anything weaker both could see the old value
// (stores may be delayed past later loads), and the reader would sleep with work in the ring.
// Ringing costs a system call only if the other side sleeps.
//
// Sizes. 1 MiB of commands is about 10,000 launches, so a burst of launches does not wait for the
// proxy. Payloads above 64 KiB (a program's source) go over the socket, so that one command cannot
// fill the ring. 32 MiB of staging are eight pieces of 4 MiB: client and proxy copy different
// pieces at the same time. A command never straddles the ring's end; kWrap marks the unused rest.
//
// The proxy checks everything that the client writes (channel.h). Both sides check
// kWireVersion: a restored program carries the client of the version that started it.
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
// A larger payload goes over the socket.
inline constexpr size_t kMaxInRing = 64u << 10;
// The largest piece of a transfer; longer transfers are cut and pipelined.
inline constexpr size_t kMaxPiece = 4u << 20;

// Commands that are not functions of opencl.api. Numbers are append-only and below 64. `sync`: the
// command makes a round trip, and this is its reply.
enum class Op : u16 {
  // {u8 kind, u64 object}
  Release = 1,
  // {u8 InfoOf, u64 object, u64 device, index or 0, u32 param}: sync, the value
  Info = 2,
  // {u64 kernel}: sync, {u32 n, n × {u32 address qualifier or 0, str type}}
  KernelParameters = 3,
  // {u64 kernel, u32 n, n × {u32 index, u64 size, u8 ArgKind, value}}
  KernelArgs = 4,
  // {u64 context, str source}; creates a program
  ProgramSource = 5,
  // {u64 context, u32 n, n × {u64 device, str container}}; creates a program
  ProgramBinary = 6,
  // {u64 queue, u64 mem, u64 offset, u64 size, u64 staging, waits}. Write: staging may be kInline,
  // then the bytes follow. waits: {u32 n, n × u64 event}
  Read = 7,
  Write = 8,
  // {u64 queue, u64 mem, u64 origin[3], u64 region[3], u64 row, u64 slice pitch, u64 staging,
  // waits};
  // staging holds the region without gaps
  ReadRect = 9,
  WriteRect = 10,
  // The contents of a buffer or image, for a checkpoint or a restore:
  // {u64 mem, u64 offset, u64 size, u64 place, u8 1: in the tool's staging, 0: in the ring's}: sync
  ReadContents = 11,
  WriteContents = 12,
  // {u64 bytes}: sync; the tool's staging memfd comes on the socket
  Staging = 13,
  // {}: sync; the client disconnects and returns by Adopt (agent/protocol.h)
  Park = 14,
  // {u32 n, n × {u64 number, u8 used, str platform, str name, u32 nth}}: sync,
  // n × {u8 found, str platform, str name, u32 nth}: the device that stands for each; then n × str
  // UUID, which older proxies do not send
  MapDevices = 15,
  // {}: sync; unmaps the tool's staging
  StagingEnd = 16,
  // {u64 program, devices, str options, u32 n, n × {u64 header, str name}}: sync.
  // devices: {u32 n, n × u64}
  CompileProgram = 17,
  // {u64 context, devices, str options, u32 n, n × u64 program}; creates a program
  LinkProgram = 18,
  // {u64 context, u64 flags, u32 channel order, u32 channel type, u32 image type, u64 width,
  // height,
  // depth, layers, row pitch, u64 buffer or 0, u64 bytes of an element or 0}; creates an image:
  // sync,
  // {u64 bytes of an element}
  CreateImage = 20,
  // {u64 queue, u64 image, u64 origin[3], u64 region[3], u64 staging, waits}; staging holds the
  // region without gaps
  ReadImage = 21,
  WriteImage = 22,
  // {u64 device, u32 n, n × i64 property, u8 1: use the whole device where it cannot be divided,
  // u32 n, n × u64 number or 0}; sync, {u32 number of sub-devices}
  SubDevices = 23,
  // {u64 kernel, u64 device, u32 param, str input}: sync, the value
  KernelSubGroup = 24,
  // {str requirements}: sync, {u32 n, n × str}: why the proxy's devices cannot take over a program
  // with these requirements (client/lifecycle/requirements.h)
  CheckRequirements = 25,
  // {}: sync; all earlier commands have been carried out
  RoundTrip = 26,
  // {}, on the socket with a descriptor: the program's working folder, for the builds that follow
  Folder = 27,
  // {u64 program, Headers}: sync; the next build or compilation of the program finds these files
  Headers = 28,
  // {u64 device}: sync, {str why launches there cannot be divided into slices, or empty}
  TestSlices = 29,
  // {u64 mem, u64 offset, u64 size}, on the socket with a buffer file: sync. The contents of the
  // new
  // buffer are from now on `size` bytes of the file. CL_INVALID_OPERATION: a device of its context
  // keeps copies, and the buffer stays as it was
  ShareMemory = 30,
  // {u64 mem}: sync; the buffer file of the buffer follows on the socket (kBufferFile)
  BufferFile = 31,
  // {u64 mem, u64 address, u64 size}, on the socket with a buffer file: sync. As ShareMemory, with
  // the contents at `address` in the proxy, too (client/svm/block.h). CL_INVALID_OPERATION: a
  // device does not work at the program's addresses; CL_MEM_OBJECT_ALLOCATION_FAILURE: the proxy
  // uses them for something else
  ShareBlock = 32,
  // {u64 mem, u64 block, u64 offset, u64 size}: sync. The contents of the new buffer are from now
  // on a part of a block that was shared by ShareBlock
  ShareInBlock = 33,
  // {u64 queue}: a completion once everything enqueued so far has finished
  Marker = 40,
  // Contents that the proxy copies to a file while the program runs on
  // (proxy/serve/owed_contents.h).
  // {u64 bytes}, on the socket with the file: sync; contents of an earlier OwedFile are not
  // copied any more
  OwedFile = 50,
  // {u64 mem, u64 offset, u64 bytes, u64 at}: these bytes belong at `at` of the file
  Owed = 51,
  // {}, on the socket with the tool's: sync; the copies begin, and the tool is told by Drained
  // (agent/protocol.h)
  OwedBegin = 52,
  // {u64 mem, 0: all}: what follows may change the memory object, so its contents are copied now
  Settle = 53,
  // Contents that the proxy gets from a tool while the program runs
  // (proxy/serve/arriving_contents.h).
  // {u64 mem, u64 bytes, u32 n, n × u64}: those of this buffer, on which n other memory objects lie
  ArrivesLater = 54,
  // {}, on the socket with the tool's: sync; they arrive. An error: none of them does
  ArrivalBegin = 55,
  // {u64 mem}: sync; they have arrived
  Arrive = 56,
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
  ImageFormats  // of a context; the second number holds the flags, `param` the image's type
};
enum class ArgKind : u8 {
  Bytes,
  Mem,
  Local,
  Sampler,
  Pointer  // {u64 block, u64 offset}: into shared virtual memory
};

inline constexpr u64 kInline = ~u64{0};  // Write: the bytes follow

enum CommandFlags : u16 {
  kSync = 1,      // the client waits for a reply
  kOnSocket = 2,  // the payload comes on the socket
};

struct CommandHeader {
  u32 bytes;  // of the payload; kWrap: the ring continues at its start
  u16 op;
  u16 flags;
  u64 made;  // the number of the object or event that this command creates; 0: none, so it gets no
             // completion
};
static_assert(sizeof(CommandHeader) == 16);
// What a payload takes in the ring, so that every header is aligned.
constexpr size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }
inline constexpr u32 kWrap = 0xffffffff;

// A command has finished on the device. Times are the driver's own, in ns; 0 if it gave none.
struct Completion {
  u64 event;
  i32 status;  // CL_COMPLETE or an error
  // For how long the command's queue has been busy so far, in microseconds (modulo 2^32, never 0);
  // 0: the command did not run, or the proxy is of a version that does not say.
  u32 busy;
  u64 queued, submitted, started, ended;
};
static_assert(sizeof(Completion) == 48);

struct Header {
  u32 magic;
  u32 version;

  // Written by the client.
  alignas(64) std::atomic<u64> command_head;
  std::atomic<u64> completion_tail;
  std::atomic<u32> client_waits;       // threads that sleep on client_bell
  std::atomic<u32> client_wants_room;  // threads that wait for room in the command ring
  std::atomic<u32> takes_output;       // 1: the client takes what kernels print (output_ring.h)
  std::atomic<u64> output_tail;

  // Written by the proxy.
  alignas(64) std::atomic<u64> command_tail;
  std::atomic<u64> completion_head;
  std::atomic<u32> proxy_waits;  // threads that sleep on proxy_bell
  std::atomic<u32> reply_ready;
  std::atomic<i32> reply_status;
  std::atomic<u32> reply_bytes;
  std::atomic<u32> reply_on_socket;
  std::atomic<u64> output_head;

  // Futexes.
  alignas(64) std::atomic<u32> client_bell;
  alignas(64) std::atomic<u32> proxy_bell;
};

// How a driver writes what kernels print.
enum class OutputWay : u16 {
  Direct,   // to the descriptor of the standard output
  Buffered  // to the C library's stdout, which in a program is the program's own
};

inline constexpr size_t kCommandsAt = 4096;
inline constexpr size_t kCompletionsAt = kCommandsAt + kCommandRingBytes;
inline constexpr size_t kReplyAt = kCompletionsAt + kCompletions * sizeof(Completion);
inline constexpr size_t kStagingAt = (kReplyAt + kReplyBytes + 4095) / 4096 * 4096;
inline constexpr size_t kRingBytes = kStagingAt + kStagingBytes;
static_assert(sizeof(Header) <= kCommandsAt);

// Messages on the socket. The greeting is the first one: {u32 version, u64 token} and the memfd,
// then {u32 platforms, each {str name, u32 devices, each {u64 type, str name}}}, then {u32 pid of
// the proxy} and {u8 1: the devices are on another node}, which older proxies do not send.
inline constexpr u16 kGreeting = 1;
inline constexpr u16 kPayload = 2;  // of a command with kOnSocket, or of a reply
inline constexpr u16 kStagingFd = 3;
inline constexpr u16 kBufferFile = 4;

}  // namespace ckpt::ocl
