// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/work/launch.h"

#include <algorithm>

#include "softcuda/driver/code/code.h"
#include "softcuda/driver/work/device_launch.h"

namespace ckpt::softcuda::driver {
namespace {

CUresult error_of(vm::FaultKind kind) {
  switch (kind) {
    case vm::FaultKind::None:
    case vm::FaultKind::Stopped: return CUDA_SUCCESS;
    case vm::FaultKind::IllegalAddress: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case vm::FaultKind::MisalignedAddress: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case vm::FaultKind::Assert: return CUDA_ERROR_ASSERT;
    case vm::FaultKind::Trap: return CUDA_ERROR_LAUNCH_FAILED;
    case vm::FaultKind::Unsupported: return CUDA_ERROR_INVALID_PTX;
    case vm::FaultKind::IllegalCall: return CUDA_ERROR_INVALID_PC;
    default: return CUDA_ERROR_LAUNCH_FAILED;
  }
}

bool fits(vm::Dim d, u64 x, u64 y, u64 z) {
  return d.x >= 1 && d.y >= 1 && d.z >= 1 && d.x <= x && d.y <= y && d.z <= z;
}

CUresult read_parameters(const vm::Kernel &k, void **params, void **extra,
                         std::vector<std::byte> &out) {
  out.resize(k.parameter_bytes());
  if (extra != nullptr) {
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
      if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
      if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t *>(extra[1]);
    }
    REQUIRE(out.empty() || (buffer != nullptr && bytes >= out.size()), CUDA_ERROR_INVALID_VALUE);
    if (!out.empty()) std::memcpy(out.data(), buffer, out.size());
    return CUDA_SUCCESS;
  }
  REQUIRE(out.empty() || params != nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::vector<vm::Slot> &slots = k.entry().params;
  for (size_t i = 0; i < slots.size(); ++i)
    std::memcpy(out.data() + slots[i].offset, params[i], slots[i].bytes);
  return CUDA_SUCCESS;
}

CUresult check_shape(const Function &f, const Launch &l) {
  REQUIRE(fits(l.grid, 0x7fffffff, 65535, 65535) && fits(l.block, 1024, 1024, 64),
          CUDA_ERROR_INVALID_VALUE);
  u64 threads = l.block.count();
  REQUIRE(threads <= kThreadsPerBlock, CUDA_ERROR_INVALID_VALUE);
  const ptx::Function &decl = f.kernel->function();
  REQUIRE(decl.max_threads == 0 || threads <= decl.max_threads, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  const u32 *need = decl.required_threads;
  REQUIRE(need[0] == 0 || (l.block.x == need[0] && l.block.y == need[1] && l.block.z == need[2]),
          CUDA_ERROR_INVALID_VALUE);
  u64 limit = std::max<u64>(kSharedPerBlock, f.max_dynamic_shared + u64{f.kernel->static_shared()});
  REQUIRE(l.shared + u64{f.kernel->static_shared()} <= limit && l.shared <= kSharedPerBlockOptin,
          CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

// A launch cannot change a cluster size that the kernel declares (__cluster_dims__).
CUresult resolve_cluster(const Function &f, Launch &l) {
  const u32 *declared = f.kernel->function().cluster;
  vm::Dim wanted{declared[0], declared[1], declared[2]};
  vm::Dim asked = l.asked_cluster;
  bool requested = asked.count() != 0;
  if (wanted.count() == 0) wanted = requested ? asked : vm::Dim{};
  REQUIRE(!requested || (wanted.x == asked.x && wanted.y == asked.y && wanted.z == asked.z),
          CUDA_ERROR_INVALID_VALUE);
  l.explicit_cluster = requested || declared[0] != 0;
  l.cluster = wanted;
  REQUIRE(wanted.count() <= kBlocksPerCluster, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  REQUIRE(l.grid.x % wanted.x == 0 && l.grid.y % wanted.y == 0 && l.grid.z % wanted.z == 0,
          CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

}  // namespace

int blocks_per_multiprocessor(const Function &f, u64 threads, u64 dynamic_shared) {
  u64 warps = (threads + 31) / 32;
  if (warps == 0 || threads > kThreadsPerBlock) return 0;
  u64 by_threads = kThreadsPerMultiprocessor / 32 / warps;
  u64 shared = f.kernel->static_shared() + dynamic_shared;
  if (shared > kSharedPerBlockOptin) return 0;
  u64 by_shared = shared == 0 ? kBlocksPerMultiprocessor : kSharedPerMultiprocessor / shared;
  return static_cast<int>(std::min<u64>({by_threads, by_shared, kBlocksPerMultiprocessor}));
}

CUresult make_launch(Context *c, const void *function, vm::Dim grid, vm::Dim block, unsigned shared,
                     void **params, void **extra, bool cooperative, Launch &out) {
  CHECK_CU(function_of(c, function, out.function));
  CHECK_CU(prepare(*out.function));
  out.handle = function;
  out.grid = grid;
  out.block = block;
  out.shared = shared;
  out.cooperative = cooperative;
  CHECK_CU(check_shape(*out.function, out));
  CHECK_CU(resolve_cluster(*out.function, out));
  if (cooperative) {
    u64 max_blocks =
        static_cast<u64>(blocks_per_multiprocessor(*out.function, block.count(), out.shared)) *
        kMultiprocessors;
    REQUIRE(grid.count() <= max_blocks, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
  return read_parameters(*out.function->kernel, params, extra, out.params);
}

namespace {

void fill_grid(vm::Grid &g, Context *c, const Launch &l, vm::DeviceServices *services) {
  g.kernel = l.function->kernel.get();
  g.memory = c;
  g.services = services;
  g.grid = l.grid;
  g.block = l.block;
  g.cluster = l.cluster;
  g.explicit_cluster = l.explicit_cluster;
  // Dynamic shared memory begins at a multiple of 16.
  u32 fixed = g.kernel->static_shared();
  g.static_shared = l.shared == 0 ? fixed : (fixed + 15) & ~15u;
  g.dynamic_shared = l.shared;
  g.shared_unit = process().sm >= 80 ? 128 : 256;
  g.id = process().next_id++;
  g.stack_bytes = static_cast<u32>(c->stack_bytes);
  g.multiprocessors = kMultiprocessors;
  g.params = l.params;
}

// The grid's barrier of cooperative groups is in device memory.
CUresult run_cooperative(Context *c, vm::Grid &g) {
  std::optional<Allocation> a = process().memory->allocate(static_cast<u32>(c->device->index),
                                                           api::kGrainBytes, MemoryKind::Device, c);
  REQUIRE(a, CUDA_ERROR_OUT_OF_MEMORY);
  g.workspace = a->base;
  std::memset(reinterpret_cast<void *>(a->host), 0, api::kGrainBytes);
  process().cores.run_cooperative(g);
  process().memory->release(a->base, MemoryKind::Device);
  return CUDA_SUCCESS;
}

CUresult run_grid(Context *c, const Launch &l, vm::Grid &g) {
  DeviceAccess access;
  if (l.cooperative) return run_cooperative(c, g);
  process().cores.run(g);
  return CUDA_SUCCESS;
}

// Appends the launches of the kernel itself to `stack`.
void run_one(Context *c, const Launch &l, std::vector<Launch> &stack) {
  vm::Grid g;
  GridServices services(c, l);
  fill_grid(g, c, l, &services);
  if (CUresult e = run_grid(c, l, g); e != CUDA_SUCCESS) {
    c->error = e;
    return;
  }
  spend_kernel_time(*c, g.instructions, g.memory_bytes, g.on_host);
  if (g.fault.kind == vm::FaultKind::None) return services.take_children(stack);
  warn(g.fault.text);
  c->error = error_of(g.fault.kind);
}

}  // namespace

// A kernel ends when all those that it has launched have ended, so they run before what was
// launched after it.
void run(Context *c, const Launch &l) {
  std::vector<Launch> stack;
  run_one(c, l, stack);
  while (!stack.empty() && c->error == CUDA_SUCCESS) {
    Launch next = std::move(stack.back());
    stack.pop_back();
    run_one(c, next, stack);
  }
}

}  // namespace ckpt::softcuda::driver
