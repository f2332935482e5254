// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include "common/base/fields.h"
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

// By-value attributes; those with pointers in them are refused by the client.
bool take_attributes(Call &c, std::vector<CUlaunchAttribute> &out) {
  u32 n = c.in.get<u32>();
  if (n > 64) return false;
  for (u32 i = 0; i < n; i++) {
    CUlaunchAttribute a{};
    a.id = static_cast<CUlaunchAttributeID>(c.in.get<u32>());
    ByteView value = c.in.raw(sizeof LaunchAttribute::value);
    bool known = a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE ||
                 a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
                 a.id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
                 a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
    if (!c.in.ok() || !known) return false;
    std::memcpy(&a.value, value.data(), sizeof a.value);
    out.push_back(a);
  }
  return true;
}

// Pointers to the parameters, in a copy that is aligned for any type.
CUresult lay_out(Call &c, u64 function, ByteView bytes, std::vector<std::max_align_t> &room,
                 std::vector<void *> &out) {
  std::shared_ptr<const Layout> layout;
  if (CUresult e = c.server.layouts.find(function, layout); e != CUDA_SUCCESS) return e;
  room.resize(bytes.size() / sizeof(std::max_align_t) + 1);
  if (!bytes.empty()) std::memcpy(room.data(), bytes.data(), bytes.size());
  for (const Place &p : layout->parameters) {
    if (!lies_within(p.offset, p.bytes, bytes.size())) return c.reject();
    out.push_back(reinterpret_cast<std::byte *>(room.data()) + p.offset);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult op_parameters(Call &c) {
  u64 number = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  std::shared_ptr<const Layout> layout;
  if (CUresult e = c.server.layouts.find(number, layout); e != CUDA_SUCCESS) return e;
  c.out.put(u8{layout->by_exact_grid}).put(static_cast<u32>(layout->parameters.size()));
  for (const Place &p : layout->parameters) c.out.put(u64{p.offset}).put(u64{p.bytes});
  return CUDA_SUCCESS;
}

CUresult op_launch(Call &c) {
  u64 number = c.in.get<u64>();
  CUlaunchConfig config{};
  for (unsigned *size : {&config.gridDimX, &config.gridDimY, &config.gridDimZ, &config.blockDimX,
                         &config.blockDimY, &config.blockDimZ, &config.sharedMemBytes})
    *size = c.in.get<u32>();
  u64 stream = c.in.get<u64>();
  std::vector<CUlaunchAttribute> attributes;
  if (!take_attributes(c, attributes)) return c.reject();
  ByteView bytes = c.rest();
  auto f = static_cast<CUfunction>(c.server.objects.real(Kind::Function, number));
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult e = stream_of(c, stream, config.hStream); e != CUDA_SUCCESS) return e;
  std::vector<std::max_align_t> room;
  std::vector<void *> parameters;
  if (CUresult e = lay_out(c, number, bytes, room, parameters); e != CUDA_SUCCESS) return e;
  if (attributes.empty())
    return driver().cuLaunchKernel(
        f, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY,
        config.blockDimZ, config.sharedMemBytes, config.hStream, parameters.data(), nullptr);
  if (!driver().cuLaunchKernelEx) return CUDA_ERROR_NOT_SUPPORTED;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return driver().cuLaunchKernelEx(&config, f, parameters.data(), nullptr);
}

CUresult op_host_call(Call &c) {
  u64 token = c.in.get<u64>(), number = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  CUstream stream = nullptr;
  if (CUresult e = stream_of(c, number, stream); e != CUDA_SUCCESS) return e;
  return c.server.host_calls.enqueue(stream, token,
                                     [&server = c.server](u64 t) { server.tell_host_call(t); });
}

}  // namespace ckpt::remote::cuda
