// SPDX-License-Identifier: Apache-2.0
//
// Launches go one way, except for the first one of each shape (function, sizes, attributes): the
// driver judges it, so that what it refuses is refused at once, as on this node. Grids of about the
// same size are of one shape, because limits on the size of a grid are powers of two less one (CUDA
// C++ Programming Guide, "Compute Capabilities"); only for cooperative launches and clusters the
// exact size counts.
#include "remote/cuda/client/code/launches.h"

#include <bit>

#include "common/base/fnv.h"
#include "remote/cuda/client/code/kernel_parameters.h"
#include "remote/cuda/client/code/placed_code.h"
#include "remote/cuda/client/memory/shared_memory.h"

namespace ckpt::remote::cuda {

namespace {

bool is_carried(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE || id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
         id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
}

// By cuda.h the driver may ignore these. Programmatic serialisation lets a kernel begin before the
// one in front of it has ended; without it the kernel's wait for that one finds it ended.
bool is_hint(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: return true;
    default: return false;
  }
}

// {attributes}, of which those that are only hints are left out.
void put_attributes(Writer &w, const CUlaunchConfig &c) {
  std::span all(c.attrs, c.numAttrs);
  auto carried = [](const CUlaunchAttribute &a) { return is_carried(a.id); };
  w.put(static_cast<u32>(std::ranges::count_if(all, carried)));
  for (const CUlaunchAttribute &a : all)
    if (carried(a)) w.put(static_cast<u32>(a.id)).raw(&a.value, sizeof a.value);
}

// A program has set the size of a function's clusters.
std::atomic<bool> clusters_set{false};

u64 shape_of(const CUlaunchConfig &c, u64 function) {
  auto extent = [](unsigned n) { return static_cast<u64>(std::bit_width(n)); };
  const std::array<u64, 9> all{function,           extent(c.gridDimX), extent(c.gridDimY),
                               extent(c.gridDimZ), c.blockDimX,        c.blockDimY,
                               c.blockDimZ,        c.sharedMemBytes,   current_context()};
  return fnv1a(text(view(all.data(), sizeof all)));
}

}  // namespace

CUresult check_attribute(const CUlaunchAttribute &a) {
  if (is_carried(a.id) || is_hint(a.id)) return CUDA_SUCCESS;
  return refuse(fmt::format("a launch with attribute {}", static_cast<int>(a.id)).c_str(),
                "it is not carried to other nodes");
}

void note_attribute_set(CUfunction_attribute what) {
  if (what == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ||
      what == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT ||
      what == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
    clusters_set = true;
}

CUresult launch_packed(const CUlaunchConfig &c, CUfunction f, ByteView parameters) {
  if (CUresult e = initialise_placed_variables(); e != CUDA_SUCCESS) return e;
  const ParameterLayout *layout = nullptr;
  if (CUresult e = layout_of(number_of(f), layout); e != CUDA_SUCCESS) return e;
  f = here(f);
  Writer w;
  w.put(number_of(f)).put(c.gridDimX).put(c.gridDimY).put(c.gridDimZ).put(c.blockDimX);
  w.put(c.blockDimY).put(c.blockDimZ).put(c.sharedMemBytes).put(number_of(c.hStream));
  put_attributes(w, c);
  bool exact = layout->by_exact_grid || clusters_set || c.numAttrs != 0;
  u64 shape = exact ? fnv1a(text(w.bytes()), current_context()) : shape_of(c, number_of(f));
  Link::Parts parts{w.bytes(), parameters};
  if (CUresult e = shared_memory().before_work(number_of(c.hStream)); e != CUDA_SUCCESS) return e;
  if (can_send(number_of(c.hStream)) && ledger().knows_shape(shape, number_of(f))) {
    link().send(number(Op::Launch), current_context(), parts);
    return CUDA_SUCCESS;
  }
  CUresult e = note_error(link().ask(number(Op::Launch), current_context(), parts));
  if (e == CUDA_SUCCESS) ledger().add_shape(shape);
  return e;
}

CUresult call_host(CUstream stream, Link::HostFunction function) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  u64 token =
      link().expect_host_call([f = std::move(function)] { shared_memory().run_host_function(f); });
  Writer w;
  Site site = site_of_handle(number_of(stream));
  CUresult e = ask(Op::HostCall, site, w.put(token).put(number_of(stream)));
  if (e != CUDA_SUCCESS) link().forget_host_call(token);
  return e;
}

}  // namespace ckpt::remote::cuda
