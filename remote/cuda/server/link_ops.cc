// SPDX-License-Identifier: Apache-2.0
//
// The device linker. The inputs come with one call, so nothing of it is left on the server.
#include "remote/cuda/server/jit_call.h"
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u32 kMaxInputs = 1u << 16;

struct LinkInput {
  CUjitInputType type;
  ByteView bytes;
  std::string name;
  JitOptions options;
};

bool read_input(Call &c, LinkInput &out) {
  u32 type = c.in.get<u32>();
  if (type >= CU_JIT_NUM_INPUT_TYPES) return false;  // no value of the enumeration
  out.type = static_cast<CUjitInputType>(type);
  Result<ByteView> bytes = c.server.code.input(out.type, c.in.get<u64>());
  out.name = c.in.str();
  if (!get(c.in, out.options) || !bytes) return false;
  out.bytes = *bytes;
  return true;
}

CUresult add(CUlinkState state, const LinkInput &in) {
  JitCall jit(in.options);
  return driver().cuLinkAddData_v2(state, in.type, const_cast<std::byte *>(in.bytes.data()),
                                   in.bytes.size(), in.name.c_str(), jit.n(), jit.options(),
                                   jit.values());
}

CUresult link_into(const std::vector<LinkInput> &inputs, JitCall &jit, Bytes &out) {
  CUlinkState state = nullptr;
  if (CUresult e = driver().cuLinkCreate_v2(jit.n(), jit.options(), jit.values(), &state);
      e != CUDA_SUCCESS)
    return e;
  CUresult e = CUDA_SUCCESS;
  for (size_t i = 0; e == CUDA_SUCCESS && i < inputs.size(); i++) e = add(state, inputs[i]);
  void *code = nullptr;
  size_t bytes = 0;
  if (e == CUDA_SUCCESS) e = driver().cuLinkComplete(state, &code, &bytes);
  if (e == CUDA_SUCCESS && bytes > kMaxBody - 2 * kMaxLogBytes - 4096) e = CUDA_ERROR_OUT_OF_MEMORY;
  if (e == CUDA_SUCCESS) {
    ByteView all = view(static_cast<const void *>(code), bytes);
    out.assign(all.begin(), all.end());
  }
  driver().cuLinkDestroy(state);
  return e;
}

}  // namespace

CUresult op_link(Call &c) {
  JitOptions options;
  if (!get(c.in, options)) return c.reject();
  u32 n = c.in.get<u32>();
  if (n > kMaxInputs) return c.reject();
  std::vector<LinkInput> inputs;
  for (u32 i = 0; i < n; i++)
    if (!read_input(c, inputs.emplace_back()))
      return c.server.code.is_short() ? CUDA_ERROR_OUT_OF_MEMORY : c.reject();
  if (!c.in.done()) return c.reject();
  JitCall jit(options);
  Bytes code;
  CUresult e = link_into(inputs, jit, code);
  put(c.out, jit.answer());
  c.out.blob(code);
  return e;
}

}  // namespace ckpt::remote::cuda
