// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/graphs/works.h"

#include "remote/cuda/client/code/kernel_parameters.h"
#include "remote/cuda/client/copies/copies.h"
#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

CUresult note_places(KernelWork &k) {
  const ParameterLayout *layout = nullptr;
  if (CUresult e = layout_of(number_of(k.function), layout); e != CUDA_SUCCESS) return e;
  for (const ByteRange &p : layout->places) k.places.push_back(k.parameters.data() + p.offset);
  return CUDA_SUCCESS;
}

// CUDA_KERNEL_NODE_PARAMS_v3 begins as the second form does.
CUDA_KERNEL_NODE_PARAMS_v2 second_form(const CUDA_KERNEL_NODE_PARAMS_v3 &p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    p.kern,      p.ctx};
}

CUDA_MEMSET_NODE_PARAMS_v1 first_form(const CUDA_MEMSET_NODE_PARAMS_v2 &p) {
  return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}

}  // namespace

CUresult make_work(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra,
                   NewWork &out) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  out = std::make_shared<Work>(std::in_place_type<KernelWork>);
  auto &k = std::get<KernelWork>(*out);
  k.function = f;
  k.grid[0] = c.gridDimX, k.grid[1] = c.gridDimY, k.grid[2] = c.gridDimZ;
  k.block[0] = c.blockDimX, k.block[1] = c.blockDimY, k.block[2] = c.blockDimZ;
  k.shared = c.sharedMemBytes;
  k.context = context_of_stream(number_of(c.hStream));
  k.attributes.assign(c.attrs, c.attrs + c.numAttrs);
  if (k.context == 0) return CUDA_ERROR_INVALID_CONTEXT;
  CUresult e = pack(number_of(f), parameters, extra, k.parameters);
  return e == CUDA_SUCCESS ? note_places(k) : e;
}

CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v2 &p, NewWork &out) {
  CUlaunchConfig c{p.gridDimX,  p.gridDimY,       p.gridDimZ, p.blockDimX, p.blockDimY,
                   p.blockDimZ, p.sharedMemBytes, nullptr,    nullptr,     0};
  bool by_kernel = !p.func;
  auto function = by_kernel ? reinterpret_cast<CUfunction>(p.kern) : p.func;
  if (p.ctx && !ledger().lives(number_of(p.ctx))) return CUDA_ERROR_INVALID_VALUE;
  InContext in(p.ctx ? number_of(p.ctx) : current_context());
  CUresult e = make_work(c, function, p.kernelParams, p.extra, out);
  if (e == CUDA_SUCCESS && by_kernel) std::get<KernelWork>(*out).kernel = p.kern;
  return e;
}

CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v1 &p, NewWork &out) {
  CUDA_KERNEL_NODE_PARAMS_v2 second{};
  std::memcpy(&second, &p, sizeof p);
  return make_work(second, out);
}
static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1));

CUresult make_work(const CUDA_MEMCPY3D_v2 &p, NewWork &out) {
  out = std::make_shared<Work>(p);
  return check_box(p);
}

CUresult make_work(const CUDA_MEMSET_NODE_PARAMS_v1 &p, NewWork &out) {
  u64 unit = p.elementSize, row = 0, all = 0;
  if ((unit != 1 && unit != 2 && unit != 4) || p.width == 0 || p.height == 0 ||
      __builtin_mul_overflow(p.width, unit, &row) ||
      __builtin_mul_overflow(p.height - 1, p.pitch, &all) ||
      __builtin_add_overflow(all, row, &all) || !memory().holds(p.dst, all))
    return CUDA_ERROR_INVALID_VALUE;
  out = std::make_shared<Work>(p);
  return CUDA_SUCCESS;
}

CUresult make_work(const CUDA_HOST_NODE_PARAMS_v1 &p, NewWork &out) {
  out = std::make_shared<Work>(p);
  return p.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult make_work(const CUevent &event, NewWork &out) {
  u64 number = number_of(event);
  if (kind_of(number) != Kind::Event || !ledger().lives(number)) return CUDA_ERROR_INVALID_HANDLE;
  out = std::make_shared<Work>(EventWork{event});
  return CUDA_SUCCESS;
}

CUresult make_work(const CUgraphNodeParams &p, NewWork &out) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return make_work(second_form(p.kernel), out);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return make_work(p.memcpy.copyParams, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: return make_work(first_form(p.memset), out);
    case CU_GRAPH_NODE_TYPE_HOST:
      return make_work(CUDA_HOST_NODE_PARAMS_v1{p.host.fn, p.host.userData}, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return make_work(p.eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return make_work(p.eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return refuse("a conditional node of a graph",
                    "a graph is executed node by node, so nothing can decide on the device");
    default:
      return refuse("a node of this type", "nodes of its type are not carried to other nodes");
  }
}

CUDA_MEMCPY3D_v2 linear_copy(u64 to, u64 from, u64 bytes) {
  CUDA_MEMCPY3D_v2 c{};
  c.dstMemoryType = c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.dstDevice = to;
  c.srcDevice = from;
  c.dstPitch = c.srcPitch = c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}

bool read_work(const Work &w, CUDA_KERNEL_NODE_PARAMS_v2 &p) {
  const auto *k = std::get_if<KernelWork>(&w);
  if (!k) return false;
  p = {k->kernel ? nullptr : k->function,
       k->grid[0],
       k->grid[1],
       k->grid[2],
       k->block[0],
       k->block[1],
       k->block[2],
       k->shared,
       const_cast<void **>(k->places.data()),
       nullptr,
       k->kernel,
       reinterpret_cast<CUcontext>(k->context)};
  return true;
}

bool read_work(const Work &w, CUDA_KERNEL_NODE_PARAMS_v1 &p) {
  CUDA_KERNEL_NODE_PARAMS_v2 second{};
  if (!read_work(w, second)) return false;
  std::memcpy(static_cast<void *>(&p), &second, sizeof p);
  if (!p.func) p.func = reinterpret_cast<CUfunction>(second.kern);
  return true;
}

bool read_work(const Work &w, CUevent &p) {
  const auto *e = std::get_if<EventWork>(&w);
  if (e) p = e->event;
  return e != nullptr;
}

}  // namespace ckpt::remote::cuda
