// SPDX-License-Identifier: Apache-2.0
//
// Managed memory of ours (paired_memory.h) where a call of the driver says "host". The program may
// pass it there, since it is memory of both. But the driver would take its address for the
// device's, and a copy in stream order needs what the device has then. So the driver is told of
// device memory.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/memory/paired_memory.h"

namespace ckpt::cuda {

// Whether the entry submits work, which may use any memory of the program.
constexpr bool submits_work(Id id) {
  constexpr std::string_view kBeginnings[] = {
      "cuMemcpy",           "cuMemset",          "cuLaunch",           "cuGraphLaunch",
      "cuStreamBatchMemOp", "cuStreamWaitValue", "cuStreamWriteValue", "cuMemBatchDecompress"};
  std::string_view symbol = api::kCudaTable[static_cast<size_t>(id)].symbol;
  return std::ranges::any_of(kBeginnings, [=](auto b) { return symbol.starts_with(b); });
}

// An argument as the driver gets it; lives while the driver reads it.
template <class T>
class PairedArgument {
 public:
  explicit PairedArgument(T given) : given_(given) {}
  T get() const { return given_; }

 private:
  T given_;
};

// One side of a copy of boxes.
inline void as_device_memory(CUmemorytype &type, const void *host, CUdeviceptr &device) {
  if (type != CU_MEMORYTYPE_HOST || !paired_memory().holds(host)) return;
  type = CU_MEMORYTYPE_DEVICE;
  device = reinterpret_cast<CUdeviceptr>(host);
}
template <class Copy>
void as_device_memory(Copy &c) {
  as_device_memory(c.srcMemoryType, c.srcHost, c.srcDevice);
  as_device_memory(c.dstMemoryType, c.dstHost, c.dstDevice);
}

template <class Copy>
class PairedCopy {
 public:
  explicit PairedCopy(const Copy *given) {
    if (given == nullptr) return;
    copy_ = *given;
    as_device_memory(*copy_);
  }
  const Copy *get() const { return copy_ ? &*copy_ : nullptr; }

 private:
  std::optional<Copy> copy_;
};
template <>
class PairedArgument<const CUDA_MEMCPY2D_v2 *> : public PairedCopy<CUDA_MEMCPY2D_v2> {
  using PairedCopy::PairedCopy;
};
template <>
class PairedArgument<const CUDA_MEMCPY3D_v2 *> : public PairedCopy<CUDA_MEMCPY3D_v2> {
  using PairedCopy::PairedCopy;
};
template <>
class PairedArgument<const CUDA_MEMCPY3D_PEER_v1 *> : public PairedCopy<CUDA_MEMCPY3D_PEER_v1> {
  using PairedCopy::PairedCopy;
};

// The copies between the host and a device, as copies within devices. There is none between an
// array and a device in stream order, so that one waits for its stream.
struct DeviceForm {
  Id form = Id::Count;  // Count: the call is no such copy
  enum class Wait : u8 { No, Stream, StreamOfThread } wait = Wait::No;
};
constexpr DeviceForm device_form(Id id) {
  using Wait = DeviceForm::Wait;
  switch (id) {
    case Id::id_cuMemcpyHtoD_v2:
    case Id::id_cuMemcpyDtoH_v2: return {Id::id_cuMemcpyDtoD_v2};
    case Id::id_cuMemcpyHtoD_v2_ptds:
    case Id::id_cuMemcpyDtoH_v2_ptds: return {Id::id_cuMemcpyDtoD_v2_ptds};
    case Id::id_cuMemcpyHtoDAsync_v2:
    case Id::id_cuMemcpyDtoHAsync_v2: return {Id::id_cuMemcpyDtoDAsync_v2};
    case Id::id_cuMemcpyHtoDAsync_v2_ptsz:
    case Id::id_cuMemcpyDtoHAsync_v2_ptsz: return {Id::id_cuMemcpyDtoDAsync_v2_ptsz};
    case Id::id_cuMemcpyHtoA_v2: return {Id::id_cuMemcpyDtoA_v2};
    case Id::id_cuMemcpyHtoA_v2_ptds: return {Id::id_cuMemcpyDtoA_v2_ptds};
    case Id::id_cuMemcpyAtoH_v2: return {Id::id_cuMemcpyAtoD_v2};
    case Id::id_cuMemcpyAtoH_v2_ptds: return {Id::id_cuMemcpyAtoD_v2_ptds};
    case Id::id_cuMemcpyHtoAAsync_v2: return {Id::id_cuMemcpyDtoA_v2, Wait::Stream};
    case Id::id_cuMemcpyHtoAAsync_v2_ptsz:
      return {Id::id_cuMemcpyDtoA_v2_ptds, Wait::StreamOfThread};
    case Id::id_cuMemcpyAtoHAsync_v2: return {Id::id_cuMemcpyAtoD_v2, Wait::Stream};
    case Id::id_cuMemcpyAtoHAsync_v2_ptsz:
      return {Id::id_cuMemcpyAtoD_v2_ptds, Wait::StreamOfThread};
    default: return {};
  }
}

// A pointer to the host as an address; all else as it is.
inline CUdeviceptr as_address(const void *p) { return reinterpret_cast<CUdeviceptr>(p); }
inline CUdeviceptr as_address(CUdeviceptr p) { return p; }
inline CUarray as_address(CUarray a) { return a; }
inline CUstream as_address(CUstream s) { return s; }

inline bool is_paired(const void *p) { return paired_memory().holds(p); }
inline bool is_paired(CUdeviceptr) { return false; }
inline bool is_paired(CUarray) { return false; }
inline bool is_paired(CUstream) { return false; }

template <class... A>
CUresult call_device_form(Id form, A... a) {
  return reinterpret_cast<CUresult (*)(decltype(as_address(a))...)>(real_entry(form))(
      as_address(a)...);
}

// The last argument is the stream, which the form does not have.
template <class P, class Q, class R>
CUresult call_after_stream(DeviceForm f, P p, Q q, R r, size_t bytes, CUstream stream) {
  auto wait = f.wait == DeviceForm::Wait::Stream ? driver().cuStreamSynchronize
                                                 : driver().cuStreamSynchronize_ptsz;
  CUresult e = wait(stream);
  return e == CUDA_SUCCESS ? call_device_form(f.form, p, q, r, bytes) : e;
}

// Calls the driver in a program that has such memory.
template <Id I, class... A>
CUresult call_with_pairs(CUresult (*real)(A...), A... a) {
  std::optional<PairedWork> work;
  if constexpr (submits_work(I)) {
    work.emplace();
    if (work->status() != CUDA_SUCCESS) return work->status();
  }
  if constexpr (constexpr DeviceForm f = device_form(I); f.form != Id::Count)
    if ((is_paired(a) || ...)) {
      if constexpr (f.wait == DeviceForm::Wait::No)
        return call_device_form(f.form, a...);
      else
        return call_after_stream(f, a...);
    }
  return real(PairedArgument<A>(a).get()...);
}

}  // namespace ckpt::cuda
