// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile ckpt-cuda-server. The input is how it answers each call of a program: with
// what the program expects, with other bytes, with contents, with frames that nothing asked for, or
// by hanging up. Whatever it says, calls return, and nothing outside of the program's buffers is
// read or written.
#include <array>
#include <thread>

#include "agent/protocol.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"
#include "remote/cuda/client/code/placed_code.h"
#include "remote/cuda/client/lifecycle/chosen_devices.h"
#include "remote/cuda/client/lifecycle/copies_ahead.h"
#include "remote/cuda/client/lifecycle/quiesce.h"
#include "remote/cuda/client/memory/memory.h"
#include "remote/cuda/client/memory/shared_memory.h"
#include "remote/cuda/client/objects/client.h"
#include "tests/fuzz/scratch.h"

namespace {

using namespace ckpt;
using namespace ckpt::remote;
using namespace ckpt::remote::cuda;

constexpr char kCode[] = R"(.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 3;
.visible .entry f(.param .u64 a, .param .u32 n) { ret; }
)";

// Frames that a server may send at any time, and others.
constexpr Frame kOther[] = {Frame::Output, Frame::CudaHost, Frame::CudaData, Frame::CudaReply,
                            Frame::Ended,  Frame::Refused,  Frame::Greeting, Frame::Completion};

// The keeper's answer, and then the server at the same socket.
class FakeServer {
 public:
  FakeServer(int listener, ByteView input) : listener_(listener), in_(input) {}

  void run() {
    Result<UniqueFd> socket = accept_unix(listener_);
    if (!socket || !receive_message(socket->get())) return;
    if (!answer_as_keeper(socket->get())) return;
    Connection c(std::make_unique<SocketStream>(std::move(*socket)));
    while (in_.left() > 0) {
      Result<Connection::Received> call = c.receive();
      if (!call) return;
      CallHeader h{};
      Reader r(call->body);
      ByteView head = r.raw(sizeof h);
      if (call->type != Frame::CudaCall || !r.ok()) continue;
      std::memcpy(&h, head.data(), sizeof h);
      if (h.one_way == 0 && !answer(c, h, r.raw(r.left()))) return;
    }
  }

 private:
  ByteView piece() { return in_.raw(std::min<size_t>(in_.get<u8>(), in_.left())); }

  bool answer_as_keeper(int socket) {
    u8 how = in_.get<u8>();
    ByteView body = how & 1 ? piece() : ByteView{};
    auto type = how & 2 ? protocol::Type::Failed : protocol::Type::Ok;
    return send_message(socket, static_cast<u16>(type), body).has_value();
  }

  static void reply(Connection &c, Frame type, u32 lane, i32 status, ByteView first,
                    ByteView rest = {}) {
    ReplyHeader h{lane, status};
    Connection::Batch b;
    b.add(type, {view(&h, sizeof h), first, rest});
    (void)c.send(b);
  }

  // False: it hangs up.
  bool answer(Connection &c, const CallHeader &h, ByteView arguments) {
    u8 how = in_.get<u8>();
    ByteView first = arguments.first(std::min<size_t>(arguments.size(), sizeof(u64)));
    switch (how % 8) {
      case 0: return false;
      case 1: (void)c.send(kOther[how / 8 % std::size(kOther)], piece()); [[fallthrough]];
      case 2:
        reply(c, Frame::CudaReply, h.lane, 0, first, piece());
        break;  // made, as it was asked
      case 3: reply(c, Frame::CudaReply, h.lane, 0, piece()); break;
      case 4: reply(c, Frame::CudaReply, h.lane, in_.get<i32>(), piece()); break;
      case 5: send_contents(c, h, arguments); break;
      case 6: reply(c, Frame::CudaData, h.lane, 0, piece()); [[fallthrough]];
      case 7: {
        i32 number = in_.get<signed char>();
        reply(c, Frame::CudaReply, h.lane, 0, view(&number, sizeof number));
      }
    }
    return true;
  }

  // As many bytes as a Read wants, give or take.
  void send_contents(Connection &c, const CallHeader &h, ByteView arguments) {
    Reader r(arguments);
    r.get<u64>();
    Bytes bytes(std::min<u64>(r.get<u64>(), 64u << 10) + in_.get<u8>() % 2);
    reply(c, Frame::CudaData, h.lane, 0, bytes);
    reply(c, Frame::CudaReply, h.lane, 0, piece());
  }

  int listener_;
  Reader in_;
};

void use_memory(CUstream stream) {
  std::array<u64, 64> here{};
  CUdeviceptr p = 0, q = 0;
  size_t n = 0;
  CUarray array = nullptr;
  (void)entry_cuMemAlloc_v2(&p, sizeof here);
  (void)entry_cuMemcpyHtoD_v2(p, here.data(), sizeof here);
  (void)entry_cuMemcpyDtoH_v2(here.data(), p, sizeof here);
  (void)entry_cuMemGetInfo_v2(&n, &n);
  CUDA_ARRAY3D_DESCRIPTOR d{4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  if (entry_cuArray3DCreate_v2(&array, &d) == CUDA_SUCCESS) {
    CUDA_RESOURCE_DESC r{};
    r.resType = CU_RESOURCE_TYPE_ARRAY;
    r.res.array.hArray = array;
    CUsurfObject surface = 0;
    (void)entry_cuSurfObjectCreate(&surface, &r);
    (void)entry_cuArray3DGetDescriptor_v2(&d, array);
  }
  if (entry_cuMemAllocManaged(&q, sizeof here, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) {
    std::memset(reinterpret_cast<void *>(q), 1, sizeof here);
    (void)shared_memory().before_work(number_of(stream));
    (void)shared_memory().after_wait(SharedMemory::kAllStreams);
  }
}

void use_code(CUstream stream) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUdeviceptr p = 0;
  size_t n = 0;
  if (entry_cuLibraryLoadData(&library, kCode, nullptr, nullptr, 0, nullptr, nullptr, 0) !=
      CUDA_SUCCESS)
    return;
  (void)entry_cuLibraryGetGlobal(&p, &n, library, "counter");
  (void)entry_cuLibraryGetGlobal(&p, &n, library, "another");
  (void)entry_cuLibraryGetKernel(&kernel, library, "f");
  int value = 0;
  (void)entry_cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0);
  // Exactly as large as the kernel's parameters, so that a byte more is found.
  auto a = std::make_unique<u64>(1);
  auto b = std::make_unique<u32>(2);
  void *parameters[] = {a.get(), b.get()};
  auto f = reinterpret_cast<CUfunction>(kernel);
  (void)entry_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

void use_linker() {
  CUlinkState state = nullptr;
  void *image = nullptr;
  size_t n = 0;
  std::array<char, 64> log{};
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  if (entry_cuLinkCreate_v2(2, options, values, &state) != CUDA_SUCCESS) return;
  (void)entry_cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, const_cast<char *>(kCode), sizeof kCode,
                               "a", 0, nullptr, nullptr);
  (void)entry_cuLinkComplete(state, &image, &n);
  (void)entry_cuLinkDestroy(state);
}

void use_device() {
  int n = 0;
  float ms = 0;
  CUevent from = nullptr, to = nullptr;
  CUstream stream = nullptr;
  std::array<char, 32> name{};
  CUuuid uuid{};
  (void)entry_cuDriverGetVersion(&n);
  (void)entry_cuDeviceGetCount(&n);
  (void)entry_cuDeviceGetName(name.data(), name.size(), 0);
  (void)entry_cuDeviceGetName(name.data(), -1, 0);
  (void)entry_cuDeviceGetUuid_v2(&uuid, 0);
  CUcontext context = nullptr;
  if (entry_cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return;
  InContext in(number_of(context));
  (void)entry_cuStreamCreate(&stream, 0);
  use_memory(stream);
  use_code(stream);
  use_linker();
  (void)entry_cuEventCreate(&from, 0);
  (void)entry_cuEventCreate(&to, 0);
  (void)entry_cuEventElapsedTime(&ms, from, to);
  (void)entry_cuLaunchHostFunc(
      stream, [](void *) {}, nullptr);
  (void)entry_cuCtxSynchronize();
  copies_ahead().copy(1, 1 << 20, [] { return false; });
  copies_ahead().drop();
  (void)quiesce_devices(std::chrono::steady_clock::now() + std::chrono::seconds(5));
}

// As if nothing had been made.
void forget_all() {
  for (const Ledger::Object &o : ledger().objects()) {
    if (kind_of(o.number) != Kind::Context) continue;
    shared_memory().end_all(o.number);
    memory().release_all(o.number);
  }
  for (const Ledger::Object &o : ledger().objects()) {
    code_ended(o.number);
    ledger().end(o.number);
  }
  forget_what_devices_said();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  static const std::string session = scratch_folder() + "/session.sock";
  static const Result<UniqueFd> listener = listen_unix(session);
  if (!listener) std::abort();
  set_ready(code_ended);
  std::thread server([&] { FakeServer(listener->get(), view(data, size)).run(); });
  std::optional<OwnDriver::Offer> offer;
  if (link().open(session, offer)) {
    use_device();
    forget_all();
    link().close();
  }
  server.join();
  return 0;
}
