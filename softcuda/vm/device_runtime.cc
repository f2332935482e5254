// SPDX-License-Identifier: Apache-2.0
//
// Kernels that launch kernels (CUDA C++ Programming Guide, "CUDA Dynamic Parallelism"). nvcc
// compiles `child<<<…>>>(…)` in a kernel to two calls, which cuda_device_runtime_api.h declares:
//
//     p = GetParameterBufferV2(child, grid, block, shared bytes)
//     store the arguments at p
//     LaunchDeviceV2(p, stream)
//
// A buffer is on the heap of the device, and the words before it keep the launch. A launch goes to
// the driver, which runs the kernels after the grid that launched them, in the order of their
// launches. The guide allows that: a kernel cannot wait for one that it launched, a grid ends when
// all grids that it launched have ended, and one order satisfies the rules of all streams and
// events. So streams and events are only names here.
//
// A launch that a device would refuse ends the kernel, so no kernel continues without noticing.
#include "softcuda/vm/device_runtime.h"

#include <atomic>

#include "softcuda/vm/access.h"
#include "softcuda/vm/arguments.h"
#include "softcuda/vm/kernel.h"
#include "softcuda/vm/report.h"
#include "softcuda/vm/services.h"

namespace ckpt::softcuda::vm {
namespace {

// cudaStreamTailLaunch (driver_types.h): when the grid and all others that it launched have ended.
constexpr u64 kTailLaunch = 3;
constexpr u64 kMark = 0x68636e75616c6463;  // "cdlaunch"

// Before a parameter buffer. The size keeps the buffer aligned.
struct alignas(16) Header {
  u64 mark;
  u64 function;  // its address
  Dim grid, block;
  u32 shared;
  u32 bytes;  // of the parameters
};

const Symbol *kernel_at(const Warp &w, u64 address) {
  u64 ordinal = (address - kCodeWindow) / 16 - 1;
  if (address % 16 != 0 || ordinal >= ~0u) return nullptr;
  const Symbol *s = w.grid->kernel->image().function_at(static_cast<u32>(ordinal));
  return s != nullptr && s->function->entry ? s : nullptr;
}

void refuse(Warp &w, const Op &op, std::string_view why) {
  w.fail(FaultKind::IllegalCall, op, fmt::format("a kernel cannot be launched: {}", why));
}

void get_parameter_buffer(Warp &w, const Op &op, Mask m, const std::vector<Slot> &args,
                          const std::vector<Slot> &results) {
  each_lane(m, [&](u32 lane) {
    Arguments a(w, lane);
    Header h{
        kMark, a.get<u64>(args, 0), a.get<Dim>(args, 1), a.get<Dim>(args, 2), a.get<u32>(args, 3),
        0};
    const Symbol *kernel = kernel_at(w, h.function);
    if (kernel == nullptr) return refuse(w, op, "the pointer is not the address of a kernel");
    h.bytes = static_cast<u32>(parameter_bytes(*kernel->function));
    u64 p = w.grid->services->allocate(sizeof h + h.bytes);
    if (p == 0)
      return refuse(w, op, "the heap of the device is full; cudaLimitMallocHeapSize sets its size");
    char *host = host_address(w, op.site, lane, p, static_cast<u32>(sizeof h), true);
    std::memcpy(host, &h, sizeof h);
    a.set(results, p + sizeof h);
  });
}

void launch(Warp &w, const Op &op, Mask m, const std::vector<Slot> &args,
            const std::vector<Slot> &results) {
  each_lane(m, [&](u32 lane) {
    Arguments a(w, lane);
    u64 p = a.get<u64>(args, 0) - sizeof(Header);
    const char *host = host_address(w, op.site, lane, p, static_cast<u32>(sizeof(Header)), false);
    Header h{};
    if (host != nullptr) std::memcpy(&h, host, sizeof h);
    if (h.mark != kMark) return refuse(w, op, "the pointer is not a parameter buffer");
    DeviceLaunch child{kernel_at(w, h.function),           h.grid, h.block, h.shared,
                       a.get<u64>(args, 1) == kTailLaunch, {}};
    const char *params = host_address(w, op.site, lane, p + sizeof h, std::max(h.bytes, 1u), false);
    if (child.kernel == nullptr || params == nullptr)
      return refuse(w, op, "the parameter buffer is damaged");
    child.params.resize(h.bytes);
    std::memcpy(child.params.data(), params, h.bytes);
    w.grid->services->release(p);
    if (std::string why = w.grid->services->launch(std::move(child)); !why.empty())
      return refuse(w, op, why);
    a.set(results, u32{0});
  });
}

// The first argument is a pointer to the new handle.
void create(Warp &w, const Op &op, Mask m, const std::vector<Slot> &args,
            const std::vector<Slot> &results) {
  static std::atomic<u64> next{0x1000};
  each_lane(m, [&](u32 lane) {
    Arguments a(w, lane);
    char *p = host_address(w, op.site, lane, a.get<u64>(args, 0), sizeof(u64), true);
    if (p == nullptr) return report_address(w, op, lane, a.get<u64>(args, 0), sizeof(u64), true);
    u64 handle = next++;
    std::memcpy(p, &handle, sizeof handle);
    a.set(results, u32{0});
  });
}

// The order of launches already satisfies it; or there is no error to report.
void succeed(Warp &w, const Op &, Mask m, const std::vector<Slot> &,
             const std::vector<Slot> &results) {
  each_lane(m, [&](u32 lane) { Arguments(w, lane).set(results, u32{0}); });
}

}  // namespace

Builtin device_runtime_named(std::string_view name) {
  constexpr std::string_view kPrefix = "__cudaCDP2", kPerThread = "_ptsz";
  if (!name.starts_with(kPrefix)) return nullptr;
  name.remove_prefix(kPrefix.size());
  if (name.ends_with(kPerThread)) name.remove_suffix(kPerThread.size());
  if (name == "GetParameterBufferV2") return &get_parameter_buffer;
  if (name == "LaunchDeviceV2") return &launch;
  if (name == "StreamCreateWithFlags" || name == "EventCreateWithFlags") return &create;
  for (std::string_view known :
       {"StreamDestroy", "StreamWaitEvent", "EventRecord", "EventRecordWithFlags", "EventDestroy",
        "GetLastError", "PeekAtLastError"})
    if (name == known) return &succeed;
  return nullptr;
}

}  // namespace ckpt::softcuda::vm
