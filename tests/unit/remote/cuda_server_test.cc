// SPDX-License-Identifier: Apache-2.0
//
// The server of CUDA calls, with a driver that agrees to everything, and programs that send
// anything.
#include "remote/cuda/server/server.h"

#include <doctest/doctest.h>

#include <atomic>
#include <random>
#include <thread>

#include "common/ipc/unix_socket.h"
#include "remote/cuda/jit_options.h"
#include "remote/cuda/piece_hash.h"
#include "tests/unit/remote/agreeing_driver.h"

using namespace ckpt;
using namespace ckpt::remote;
using namespace ckpt::remote::cuda;
using namespace ckpt::remote::cuda::test;

// The test fails where a copy of the program would write to what is no device memory.
void test::copied_elsewhere() { FAIL("a copy to memory that is not the program's"); }

namespace {

// Never destroyed: their lanes may still run.
std::vector<Server *> &servers() {
  static auto *const kAll = new std::vector<Server *>;
  return *kAll;
}

// A program at the other end of a server.
struct Program {
  Program() {
    auto pair = socket_pair();
    REQUIRE(pair);
    socket = std::make_unique<SocketStream>(std::move(pair->first));
    auto *server = new Server(
        std::make_unique<Connection>(std::make_unique<SocketStream>(std::move(pair->second))),
        [memory = memory](i64 change) {
          bool fits = *memory + change <= i64{64} << 20;
          if (fits) *memory += change;
          return fits;
        });
    servers().push_back(server);
    serving = std::thread([this, server] { ended = server->run(); });
  }
  void send(Frame type, ByteView body) {
    FrameHeader h{static_cast<u32>(body.size()), static_cast<u16>(type), 0};
    if (socket->write(view(&h, sizeof h))) (void)socket->write(body);
  }
  void call(u16 op, ByteView arguments, bool one_way = false, u32 lane = 1) {
    CallHeader h{lane, op, one_way, 0};
    Writer w;
    send(Frame::CudaCall, w.raw(&h, sizeof h).raw(arguments.data(), arguments.size()).bytes());
  }
  // The bytes of a frame CudaData in front of the reply.
  Bytes data() {
    FrameHeader h{};
    read(std::as_writable_bytes(std::span(&h, 1)));
    REQUIRE(h.type == static_cast<u16>(Frame::CudaData));
    Bytes body(h.bytes);
    read(body);
    return {body.begin() + sizeof(ReplyHeader), body.end()};
  }
  CUresult reply(Bytes *results = nullptr) {
    FrameHeader h{};
    ReplyHeader r{};
    read(std::as_writable_bytes(std::span(&h, 1)));
    read(std::as_writable_bytes(std::span(&r, 1)));
    Bytes rest(h.bytes - sizeof r);
    read(rest);
    if (results) *results = std::move(rest);
    return static_cast<CUresult>(r.status);
  }
  void read(std::span<std::byte> into) {
    while (!into.empty()) {
      auto n = socket->read_some(into);
      REQUIRE(n);
      REQUIRE(*n > 0);
      into = into.subspan(*n);
    }
  }
  // The server ends the connection by itself, with an error.
  bool is_refused() {
    std::byte unused;
    bool closed = socket->read_some(std::span(&unused, 1)).value_or(1) == 0;
    return !hang_up() && closed;
  }
  Result<> hang_up() {
    socket->shut_down();
    serving.join();
    return ended;
  }

  std::shared_ptr<std::atomic<i64>> memory = std::make_shared<std::atomic<i64>>(0);
  std::unique_ptr<Stream> socket;
  std::thread serving;
  Result<> ended;
};

u16 op(Op o) { return static_cast<u16>(o); }

Writer range(u64 base, u64 bytes) {
  Writer w;
  w.put(base).put(bytes);
  return w;
}

}  // namespace

TEST_CASE("only mapped memory can be written, and its bytes are counted") {
  Program p;
  p.call(op(Op::Arena), range(0, 1ull << 40).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  auto map = [&](u64 at, u64 bytes) {
    p.call(op(Op::Map), range(at, bytes).put(i32{0}).bytes());
    return p.reply();
  };
  CHECK(map(kArena, kBlock) == CUDA_SUCCESS);
  CHECK(map(kArena, kBlock) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(kArena - kBlock, kBlock) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(kArena + kBlock, 64u << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(*p.memory == kBlock);
  auto write = [&](u64 at, size_t bytes) {
    Bytes data(bytes);
    p.call(op(Op::Write), Writer().put(at).put(u64{0}).put(u8{0}).raw(data.data(), bytes).bytes());
    return p.reply();
  };
  CHECK(write(kArena + 5, 100) == CUDA_SUCCESS);
  CHECK(write(kArena + kBlock - 5, 100) == CUDA_ERROR_INVALID_VALUE);
  CHECK(write(reinterpret_cast<u64>(&p), 8) == CUDA_ERROR_INVALID_VALUE);
  p.call(op(Op::Unmap), range(kArena, kBlock).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  CHECK(write(kArena, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(*p.memory == 0);
  CHECK(p.hang_up());
}

TEST_CASE("physical memory counts once, however often it is mapped, and ends unmapped only") {
  Program p;
  p.call(op(Op::Arena), range(0, 1ull << 40).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  auto ask = [&](Op o, const Writer &arguments) {
    p.call(op(o), arguments.bytes());
    return p.reply();
  };
  u64 a = make_number(Kind::Memory, 1), b = make_number(Kind::Memory, 2);
  auto make = [&](u64 number, u64 bytes) {
    return ask(Op::MakeMemory, range(number, bytes).put(i32{0}));
  };
  auto map = [&](u64 at, u64 bytes, u64 number) {
    return ask(Op::MapMemory, range(at, bytes).put(number));
  };
  auto access = [&](u64 at, u64 bytes) {
    return ask(Op::SetAccess, range(at, bytes).put(i32{0}).put(u32{3}));
  };
  constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
  CHECK(make(a, 2 * kBlock) == CUDA_SUCCESS);
  CHECK(make(a, kBlock) == kInvalid);
  CHECK(make(b, kBlock + 1) == kInvalid);
  CHECK(make(b, 64u << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(*p.memory == 2 * kBlock);
  CHECK(map(kArena, kBlock, b) == kInvalid);
  CHECK(map(kArena - kBlock, kBlock, a) == kInvalid);
  CHECK(map(kArena, 4 * kBlock, a) == kInvalid);
  CHECK(map(kArena, 2 * kBlock, a) == CUDA_SUCCESS);
  CHECK(map(kArena + kBlock, kBlock, a) == kInvalid);
  CHECK(map(kArena + 2 * kBlock, kBlock, a) == CUDA_SUCCESS);
  CHECK(*p.memory == 2 * kBlock);
  CHECK(access(kArena, 3 * kBlock) == CUDA_SUCCESS);
  CHECK(access(kArena, kBlock) == kInvalid);
  CHECK(access(kArena, 4 * kBlock) == kInvalid);
  CHECK(ask(Op::EndMemory, Writer().put(a)) == kInvalid);
  CHECK(ask(Op::Unmap, range(kArena, 2 * kBlock)) == kInvalid);  // no memory of Op::Map
  CHECK(ask(Op::Map, range(kArena + 3 * kBlock, kBlock).put(i32{0})) == CUDA_SUCCESS);
  CHECK(ask(Op::UnmapMemory, range(kArena, 4 * kBlock)) == kInvalid);
  CHECK(ask(Op::UnmapMemory, range(kArena + kBlock, kBlock)) == kInvalid);
  CHECK(ask(Op::UnmapMemory, range(kArena, 3 * kBlock)) == CUDA_SUCCESS);
  CHECK(ask(Op::Write, Writer().put(kArena).put(u64{0}).put(u8{0}).put(u8{1})) == kInvalid);
  CHECK(ask(Op::EndMemory, Writer().put(a)) == CUDA_SUCCESS);
  CHECK(ask(Op::EndMemory, Writer().put(a)) == kInvalid);
  CHECK(*p.memory == kBlock);
  p.call(op(Op::MakeMemory), range(make_number(Kind::Stream, 3), kBlock).put(i32{0}).bytes());
  CHECK(p.is_refused());
}

TEST_CASE("only pieces with another hash travel, and only those of mapped memory are read") {
  Program p;
  p.call(op(Op::Arena), range(0, 1ull << 40).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  p.call(op(Op::Map), range(kArena, kBlock).put(i32{0}).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  // The driver leaves the server's buffer as it is: zeros.
  PieceHash zeros = hash_of(Bytes(kAheadBytes)), others{1, 2};
  auto ask = [&](u64 at, u64 bytes, std::initializer_list<PieceHash> known) {
    Writer w = range(at, bytes);
    for (const PieceHash &h : known) w.raw(&h, sizeof h);
    p.call(op(Op::ReadChanged), w.bytes());
  };
  ask(kArena, 2 * kAheadBytes, {zeros, others});
  CHECK(p.data() == Bytes(1));
  CHECK(p.data().size() == 1 + kAheadBytes);
  CHECK(p.reply() == CUDA_SUCCESS);
  ask(kArena, kAheadBytes + 5, {});
  CHECK(p.data().size() == 1 + kAheadBytes);
  CHECK(p.data().size() == 1 + 5);
  CHECK(p.reply() == CUDA_SUCCESS);
  ask(kArena + kBlock - kAheadBytes, kAheadBytes + 1, {});
  CHECK(p.reply() == CUDA_ERROR_INVALID_VALUE);
  ask(reinterpret_cast<u64>(&p), 8, {});
  CHECK(p.reply() == CUDA_ERROR_INVALID_VALUE);
  ask(kArena, 2 * kAheadBytes, {zeros});
  CHECK(p.is_refused());
}

TEST_CASE("the numbers of devices come once, in front of all calls") {
  auto numbers = [](u32 n) { return Writer().put(n).put(i32{-1}).put(i32{0}); };
  Program p;
  p.call(op(Op::Devices), numbers(2).bytes(), true);
  p.call(op(Op::Arena), range(0, 1ull << 40).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  auto make = [&](u64 serial, i32 device) {
    u64 number = make_number(Kind::Memory, serial);
    p.call(op(Op::MakeMemory), range(number, kBlock).put(device).bytes());
    return p.reply();
  };
  CHECK(make(1, 1) == CUDA_SUCCESS);
  CHECK(last_device == 0);
  CHECK(make(2, 0) == CUDA_SUCCESS);  // the driver judges it
  CHECK(last_device == CU_DEVICE_INVALID);
  p.call(op(Op::Devices), numbers(2).bytes(), true);
  CHECK_FALSE(p.hang_up());
  for (u32 wrong : {0u, 1u, 3u, ~0u}) {
    Program other;
    other.call(op(Op::Devices), numbers(wrong).bytes(), true);
    CHECK_FALSE(other.hang_up());
  }
}

TEST_CASE("the handle of a texture is written only to mapped memory of the program") {
  Program p;
  p.call(op(Op::Arena), range(0, 1ull << 40).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  p.call(op(Op::Map), range(kArena, kBlock).put(i32{0}).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  CUDA_RESOURCE_DESC r{};
  r.resType = CU_RESOURCE_TYPE_LINEAR;
  r.res.linear.devPtr = kArena;
  r.res.linear.sizeInBytes = 4096;
  CUDA_TEXTURE_DESC t{};
  auto make = [&](u64 cell) {
    Writer w;
    w.put(cell).put(u8{0}).raw(&r, sizeof r).put(u8{1}).raw(&t, sizeof t).put(u8{0});
    p.call(op(Op::MakeTextureAt), w.bytes());
    return p.reply();
  };
  auto end = [&](Op o, u64 key) {
    p.call(op(o), Writer().put(u8{0}).put(key).bytes());
    return p.reply();
  };
  CHECK(make(kArena + 8) == CUDA_SUCCESS);
  CHECK(make(kArena + 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(make(kArena + kBlock) == CUDA_ERROR_INVALID_VALUE);
  CHECK(make(reinterpret_cast<u64>(&p) & ~u64{7}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(end(Op::EndTextureAt, kArena + 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(end(Op::EndTextureAt, kArena + 8) == CUDA_SUCCESS);
  CHECK(end(Op::EndTextureAt, kArena + 8) == CUDA_ERROR_INVALID_VALUE);
  r.res.linear.devPtr = kArena + kBlock;
  CHECK(make(kArena + 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(p.hang_up());
}

TEST_CASE("only mapped memory can be shared, and what was shared ends with it") {
  Program p;
  p.call(op(Op::Arena), range(0, 1ull << 40).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  p.call(op(Op::Map), range(kArena, kBlock).put(i32{0}).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  auto share = [&](u64 at, u64 bytes) {
    p.call(op(Op::Mirror), range(at, bytes).bytes());
    return p.reply();
  };
  auto push = [&](u64 at, size_t bytes) {
    Bytes data(bytes);
    p.call(op(Op::Push), Writer().put(at).blob(data).bytes());
    return p.reply();
  };
  CHECK(push(kArena, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(share(reinterpret_cast<u64>(&p), 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(share(kArena + kBlock - 8, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(share(kArena, 1ull << 60) == CUDA_ERROR_INVALID_VALUE);
  CHECK(share(kArena + 512, 1000) == CUDA_SUCCESS);
  CHECK(share(kArena + 512, 1000) == CUDA_SUCCESS);  // zeros again
  CHECK(share(kArena + 600, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(share(kArena, 600) == CUDA_ERROR_INVALID_VALUE);
  CHECK(push(kArena + 512, 1000) == CUDA_SUCCESS);
  CHECK(push(kArena + 513, 1000) == CUDA_ERROR_INVALID_VALUE);
  p.call(op(Op::Fetch), Writer().put(u32{0}).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  p.call(op(Op::Unmap), range(kArena, kBlock).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  CHECK(push(kArena + 512, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(p.hang_up());
}

TEST_CASE("a number that the server has not given out leads nowhere") {
  Program p;
  constexpr u16 kStreamQuery = 123;
  for (u64 number : {make_number(Kind::Stream, 1), make_number(Kind::Event, 1), u64{3}, ~u64{0}}) {
    p.call(kStreamQuery, Writer().put(number).bytes());
    CHECK(p.reply() == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(p.hang_up());
}

TEST_CASE("an error of a one-way call is reported by the next call that waits") {
  Program p;
  constexpr u16 kEventRecord = 136, kDeviceGetCount = 1;
  p.call(kEventRecord, Writer().put(make_number(Kind::Event, 7)).put(u64{0}).bytes(), true);
  p.call(kDeviceGetCount, Writer().put(u8{0}).bytes());
  CHECK(p.reply() == CUDA_SUCCESS);
  p.call(op(Op::Idle), {});
  CHECK(p.reply() == CUDA_SUCCESS);  // it tells the error, and leaves it
  p.call(op(Op::Settle), {});
  CHECK(p.reply() == CUDA_ERROR_INVALID_HANDLE);
  p.call(op(Op::Settle), {});
  CHECK(p.reply() == CUDA_SUCCESS);
  CHECK(p.hang_up());
}

TEST_CASE("objects have the numbers that the program wants, and end with their owner") {
  Objects all;
  int a = 0, b = 0, c = 0, d = 0;
  u64 context = all.number(make_number(Kind::Context, 7), &a, 0);
  CHECK(context == make_number(Kind::Context, 7));
  u64 module = all.number(make_number(Kind::Module, 3), &b, context);
  u64 function = all.number(make_number(Kind::Function, 9), &c, module);
  CHECK(all.number(make_number(Kind::Function, 10), &c, module) == function);
  CHECK(all.number(function, &d, module) == 0);  // another function has it
  CHECK(all.real(Kind::Function, function) == &c);
  CHECK(all.real(Kind::Kernel, function) == nullptr);
  CHECK(all.end(context).size() == 3);
  CHECK(all.real(Kind::Function, function) == nullptr);
  CHECK(all.number(make_number(Kind::Function, 11), &c, 0) == make_number(Kind::Function, 11));
}

std::atomic<bool> event_made{false};

TEST_CASE("an event that gets the address of one that another thread ends is a new one") {
  constexpr u16 kEventCreate = 132, kEventDestroy = 133;
  u64 first = make_number(Kind::Event, 1), second = make_number(Kind::Event, 2);
  Program p;
  auto make = [&p](u64 wanted, u32 lane) {
    p.call(kEventCreate, Writer().put(wanted).put(u32{0}).bytes(), false, lane);
    Bytes number;
    CHECK(p.reply(&number) == CUDA_SUCCESS);
    Reader r(number);
    return r.get<u64>();
  };
  auto end = [&p](u64 number) {
    p.call(kEventDestroy, Writer().put(number).bytes());
    return p.reply();
  };
  CHECK(make(first, 1) == first);
  at_event_end = [] {  // the driver has ended it, and has not returned yet
    for (int i = 0; i < 1000 && !event_made; i++)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  p.call(kEventDestroy, Writer().put(first).bytes());
  CHECK(make(second, 2) == second);
  event_made = true;
  CHECK(p.reply() == CUDA_SUCCESS);
  CHECK(end(first) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(end(second) == CUDA_SUCCESS);
  CHECK(p.hang_up());
  at_event_end = nullptr;
}

TEST_CASE(
    "what a context owned has ended when it is empty, and new objects may have its addresses") {
  Objects all;
  int a = 0, b = 0, c = 0;
  u64 context = all.number(make_number(Kind::Context, 7), &a, 0);
  u64 array = all.number(make_number(Kind::Array, 3), &b, context);
  all.number(make_number(Kind::Array, 4), &c, 0);
  CHECK(all.end_owned_by(context) == std::vector<u64>{array});
  CHECK(all.real(Kind::Context, context) == &a);
  CHECK(all.number(make_number(Kind::Array, 5), &b, context) == make_number(Kind::Array, 5));
  CHECK(all.size() == 3);
}

TEST_CASE("what a kernel is in a context ends with it, and the kernel and pools do not") {
  Objects all;
  int a = 0, b = 0, c = 0, d = 0, e = 0;
  u64 context = all.number(make_number(Kind::Context, 7), &a, 0);
  u64 library = all.number(make_number(Kind::Library, 1), &b, 0, true, context);
  u64 kernel = all.number(make_number(Kind::Kernel, 2), &c, library, false, context);
  u64 pool = all.number(make_number(Kind::Pool, 3), &e, 0, false, context);
  auto find = [&](u64 serial) {
    return all.number(make_number(Kind::Function, serial), &d, kernel, false, context);
  };
  u64 function = find(4);
  CHECK(all.end_owned_by(context) == std::vector<u64>{function});
  CHECK(find(5) == make_number(Kind::Function, 5));
  CHECK(all.end(context).size() == 2);
  CHECK(all.real(Kind::Kernel, kernel) == &c);
  CHECK(all.real(Kind::Pool, pool) == &e);
}

TEST_CASE("a mipmapped array counts with all its levels, and its level with nothing") {
  Program p;
  CUDA_ARRAY3D_DESCRIPTOR d{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  u64 mipmap = make_number(Kind::Mipmap, 1), level = make_number(Kind::Array, 2);
  auto make = [&](u64 number, u32 levels) {
    p.call(op(Op::MakeMipmap), Writer().put(number).raw(&d, sizeof d).put(levels).bytes());
  };
  make(mipmap, 3);
  CHECK(p.reply() == CUDA_SUCCESS);
  CHECK(*p.memory == 4 * (64 * 32 + 32 * 16 + 16 * 8));
  p.call(op(Op::MipmapLevel),
         Writer().put(level).put(make_number(Kind::Mipmap, 9)).put(u32{0}).bytes());
  CHECK(p.reply() == CUDA_ERROR_INVALID_HANDLE);
  d.Width = 1 << 20, d.Height = 1 << 10;
  make(make_number(Kind::Mipmap, 3), ~u32{0});
  CHECK(p.reply() == CUDA_ERROR_OUT_OF_MEMORY);
  make(level, 1);
  CHECK(p.is_refused());
}

TEST_CASE("a number of another kind than the object ends the connection") {
  Program p;
  constexpr u16 kStreamCreate = 120;
  p.call(kStreamCreate, Writer().put(make_number(Kind::Event, 1)).put(u32{0}).bytes());
  CHECK(p.is_refused());
}

// A link with one option and no input, or with one input.
Writer link_with(CUjit_option option, u32 log_bytes, std::optional<u64> part = {}) {
  Writer w;
  w.put(u32{1}).put(static_cast<u32>(option)).put(u32{32}).put(log_bytes).put(u32{0});
  w.put(u32{part ? 1u : 0u});
  if (part) w.put(u32{CU_JIT_INPUT_PTX}).put(*part).str("").put(u32{0}).put(u32{0}).put(u32{0});
  return w;
}

TEST_CASE("options of the linker are numbers and bounded logs, and inputs are code that was sent") {
  Program good;
  good.call(op(Op::Code), Writer().put(u64{7}).raw(".version 7.0", 12).bytes(), true);
  good.call(op(Op::Link), link_with(CU_JIT_MAX_REGISTERS, kMaxLogBytes, 7).bytes());
  CHECK(good.reply() == CUDA_SUCCESS);
  CHECK(good.hang_up());
  for (const Writer &bad :
       {link_with(CU_JIT_INFO_LOG_BUFFER, 16), link_with(CU_JIT_GLOBAL_SYMBOL_NAMES, 16),
        link_with(CU_JIT_MAX_REGISTERS, kMaxLogBytes + 1),
        link_with(CU_JIT_MAX_REGISTERS, 16, 8)}) {
    Program p;
    p.call(op(Op::Link), bad.bytes());
    CHECK(p.is_refused());
  }
}

TEST_CASE("device code counts as memory, and a program that goes on sending it is ended") {
  Program p;
  Bytes code(30u << 20);
  auto send = [&](u64 number) {
    p.call(op(Op::Code), Writer().put(number).raw(code.data(), code.size()).bytes(), true);
  };
  auto load = [&](u64 part) {
    Writer w;
    w.put(make_number(Kind::Module, 1)).put(static_cast<u8>(fatbin::Form::Ptx));
    put(w.put(u32{1}).put(part), JitOptions{});
    p.call(op(Op::Load), w.bytes());
    return p.reply();
  };
  send(1);
  send(2);
  send(3);  // 64 MiB are allowed
  CUresult e = load(3);
  CHECK(e == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(*p.memory >= i64{60} << 20);
  CHECK(*p.memory < i64{61} << 20);
  for (u64 number = 4; number < 10; number++) send(number);
  CHECK(p.is_refused());
}

TEST_CASE("whatever a program sends, the server survives") {
  std::mt19937 rng(20261123);
  for (int round = 0; round < 100; round++) {
    Program p;
    for (int i = 0; i < 20; i++) {
      Bytes body(rng() % 8 * 8 + rng() % 3);
      for (std::byte &b : body) b = static_cast<std::byte>(rng() % 4 ? 0 : rng());
      u16 number = static_cast<u16>(rng() % 2 ? rng() % 256 : op(Op::First) + rng() % 32);
      bool call = rng() % 16 != 0;
      if (call)
        p.call(number, body, rng() % 2);
      else
        p.send(static_cast<Frame>(rng() % 32), body);
    }
    (void)p.hang_up();
  }
}
