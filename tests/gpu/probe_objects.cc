// SPDX-License-Identifier: Apache-2.0
//
// Questions about objects that name memory of cuMemCreate by its address: after a checkpoint by
// ckpt there is other physical memory at that address.
#include <cstring>

#include "probe.h"

namespace probe {
namespace {

CUcontext current() {
  CUcontext context = nullptr;
  CHECKED(cuCtxGetCurrent, 4000, &context);
  return context;
}

CUmemorytype constexpr kDevice = CU_MEMORYTYPE_DEVICE;

void add_copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D_v2 copy{};
  copy.srcMemoryType = copy.dstMemoryType = kDevice;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = kBytes;
  copy.Height = copy.Depth = 1;
  CUgraphNode node;
  CHECKED(cuGraphAddMemcpyNode, 10000, &node, graph, nullptr, 0, &copy, current());
}

void launch(CUgraphExec graph) {
  CHECKED(cuGraphLaunch, 10000, graph, nullptr);
  CHECKED(cuCtxSynchronize, 2000);
}

// What ckpt does at a checkpoint.
void change_memory(Mapped &m) {
  unmap(m);
  leave_and_return();
  map(m);
}

CUdeviceptr allocated() {
  CUdeviceptr p = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, kBytes);
  return p;
}

void ask_about_graph() {
  Mapped source{reserve(kBytes)}, target{reserve(kBytes)};
  map(source);
  map(target);
  CUdeviceptr in = allocated(), out = allocated();
  CUgraph graph;
  CUgraphExec ready;
  CHECKED(cuGraphCreate, 10000, &graph, 0);
  add_copy(graph, out, source.at);
  add_copy(graph, target.at, in);
  CHECKED(cuGraphInstantiateWithFlags, 11040, &ready, graph, 0);
  for (unsigned value : {1u, 2u}) {
    fill(source.at, value);
    fill(in, value + 10);
    launch(ready);
    if (!holds(out, value)) fail("a graph copies from the memory that it was made with");
    if (!holds(target.at, value + 10)) fail("a graph copies to the memory that it was made with");
    if (value == 2) break;
    change_memory(source);
    change_memory(target);
  }
  std::puts("a graph copies from and to the new memory");
}

// PTX 7.0, for all drivers that have the checkpoint calls.
const char kFetch[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 out)
{
  .reg .b32 %r<6>;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [texture];
  ld.param.u64 %d2, [out];
  mov.u32 %r5, 7;
  tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [%d1, {%r5}];
  st.global.u32 [%d2], %r1;
  ret;
}
)";

CUtexObject texture_on(CUdeviceptr p) {
  CUDA_RESOURCE_DESC_v1 resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = p;
  resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 4096;
  CUDA_TEXTURE_DESC_v1 how{};
  how.flags = 1;  // CU_TRSF_READ_AS_INTEGER
  CUtexObject texture = 0;
  CHECKED(cuTexObjectCreate, 5000, &texture, &resource, &how, nullptr);
  return texture;
}

void ask_about_texture() {
  Mapped m{reserve(kBytes)};
  map(m);
  CUtexObject texture = texture_on(m.at);
  CUdeviceptr out = allocated();
  CUmodule module;
  CUfunction fetch;
  CHECKED(cuModuleLoadData, 2000, &module, kFetch);
  CHECKED(cuModuleGetFunction, 2000, &fetch, module, "fetch");
  for (unsigned value : {1u, 2u}) {
    fill(m.at, value);
    void *arguments[] = {&texture, &out};
    CHECKED(cuLaunchKernel, 4000, fetch, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
    unsigned got = 0;
    CHECKED_AS(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, &got, out, sizeof got);
    if (got != value) fail("a texture reads the memory that it was made with");
    if (value == 1) change_memory(m);
  }
  std::puts("a texture reads the new memory");
}

// Peer access is not enabled. The memory of each device is made by cuMemCreate.
void ask_about_peers() {
  int count = 0;
  CHECKED(cuDeviceGetCount, 2000, &count);
  if (count < 2) skip("there is one GPU");
  Mapped here{reserve(kBytes)};
  map(here);
  fill(here.at, 0x5eed);
  CHECKED(cuCtxSynchronize, 2000);  // a copy in another context need not wait for it
  CUcontext first = current(), second = nullptr;
  CHECKED(cuDevicePrimaryCtxRetain, 7000, &second, 1);
  CHECKED(cuCtxSetCurrent, 4000, second);
  Mapped there{reserve(kBytes)};
  map(there, 1);
  fill(there.at, 1);
  CHECKED(cuMemcpyPeer, 4000, there.at, second, here.at, first, kBytes);
  if (!holds(there.at, 0x5eed)) fail("cuMemcpyPeer has copied something else");
  fill(there.at, 2);
  CHECKED_AS(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, there.at, here.at, kBytes);
  if (!holds(there.at, 0x5eed)) fail("cuMemcpyDtoD has copied something else");
  std::puts("copies between two GPUs without peer access have the right contents");
}

}  // namespace

bool ask_about_objects(const std::string &question) {
  if (question == "graph") return ask_about_graph(), true;
  if (question == "texture") return ask_about_texture(), true;
  if (question == "peers") return ask_about_peers(), true;
  return false;
}

}  // namespace probe
