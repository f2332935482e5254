// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/link/native.h"

#include "remote/cuda/codec.h"

namespace ckpt::remote::cuda {

CUresult Native::perform(Call &call, u16 op, u64 context, Link::Parts arguments) {
  call.header.op = op;
  call.header.context = context;
  const ByteView *part = arguments.begin();
  if (arguments.size() > 0) call.in = Reader(part[0]);
  if (arguments.size() > 1) call.apart = part[1];
  return server_.perform(call);
}

void Native::send(u16 op, u64 context, Link::Parts arguments) {
  Call call(server_);
  call.header.one_way = 1;
  (void)perform(call, op, context, arguments);
}

CUresult Native::ask(u16 op, u64 context, Link::Parts arguments, Bytes *results,
                     std::span<std::byte> data) {
  Call call(server_);
  call.into = data;
  CUresult e = perform(call, op, context, arguments);
  if (results) *results = call.out.take();
  return e;
}

CUresult Native::ask(u16 op, u64 context, Link::Parts arguments, const Link::TakeData &take) {
  Call call(server_);
  Result<> taken;
  std::function<void(ByteView)> taking = [&](ByteView bytes) {
    if (taken) taken = take(bytes);
  };
  call.take = &taking;
  CUresult e = perform(call, op, context, arguments);
  return e == CUDA_SUCCESS && !taken ? CUDA_ERROR_UNKNOWN : e;
}

CUresult Native::read_later(u64 context, void *to, u64 from, u64 bytes, u64 stream) {
  Writer w;
  w.put(from).put(bytes).put(stream);
  Call call(server_);
  call.header.one_way = 1;
  call.into = std::span(static_cast<std::byte *>(to), bytes);
  return perform(call, static_cast<u16>(Op::Read), context, {w.bytes()});
}

// An error only makes copies slower.
void Native::lock_pages(u64 context, u64 base, u64 bytes) {
  if (!driver().cuMemHostRegister_v2 || server_.enter(context) != CUDA_SUCCESS) return;
  CUresult e = driver().cuMemHostRegister_v2(reinterpret_cast<void *>(base), bytes,
                                             CU_MEMHOSTREGISTER_PORTABLE);
  std::lock_guard lock(mutex_);
  if (e == CUDA_SUCCESS) locked_.insert(base);
}

void Native::unlock_pages(u64 base) {
  std::lock_guard lock(mutex_);
  if (locked_.erase(base) > 0) driver().cuMemHostUnregister(reinterpret_cast<void *>(base));
}

void Native::unlock_all_pages() {
  std::lock_guard lock(mutex_);
  for (u64 base : locked_) driver().cuMemHostUnregister(reinterpret_cast<void *>(base));
  locked_.clear();
}

CUresult Native::share_pages(u64 context, u64 base, u64 bytes) {
  const Driver &d = driver();
  if (!d.cuMemHostRegister_v2 || !d.cuMemHostGetDevicePointer_v2) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult e = server_.enter(context); e != CUDA_SUCCESS) return e;
  void *pages = reinterpret_cast<void *>(base);
  CUresult e = d.cuMemHostRegister_v2(pages, bytes,
                                      CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
  if (e != CUDA_SUCCESS) return e;
  CUdeviceptr device = 0;
  e = d.cuMemHostGetDevicePointer_v2(&device, pages, 0);
  if (e == CUDA_SUCCESS && device != base) e = CUDA_ERROR_NOT_SUPPORTED;
  if (e != CUDA_SUCCESS) return d.cuMemHostUnregister(pages), e;
  server_.memory.add_shared(base, bytes);
  std::lock_guard lock(mutex_);
  locked_.insert(base);
  return e;
}

void Native::end_shared_pages(u64 base) {
  server_.memory.forget_shared(base);
  unlock_pages(base);
}

CUresult Native::launch(u64 context, const CUlaunchConfig &config, u64 function, void **parameters,
                        void **extra) {
  const Objects &objects = server_.objects;
  auto f = static_cast<CUfunction>(objects.real(Kind::Function, function));
  CUlaunchConfig real = config;
  u64 stream = number_of(config.hStream);
  if (stream > kSpecialStreams)
    real.hStream = static_cast<CUstream>(objects.real(Kind::Stream, stream));
  if (!f || (stream != 0 && !real.hStream)) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult e = server_.enter(context); e != CUDA_SUCCESS) return e;
  if (real.numAttrs == 0)
    return driver().cuLaunchKernel(f, real.gridDimX, real.gridDimY, real.gridDimZ, real.blockDimX,
                                   real.blockDimY, real.blockDimZ, real.sharedMemBytes,
                                   real.hStream, parameters, extra);
  if (!driver().cuLaunchKernelEx) return CUDA_ERROR_NOT_SUPPORTED;
  return driver().cuLaunchKernelEx(&real, f, parameters, extra);
}

}  // namespace ckpt::remote::cuda
