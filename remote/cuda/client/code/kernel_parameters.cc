// SPDX-License-Identifier: Apache-2.0
//
// The server says where parameters lie, and the program's memory is read and written by that. A
// server that lies would have memory of the program sent to it, or written outside of a buffer. So
// its layout must be possible by itself, and the one that the program's own code declares, if that
// can be read: PTX and cubins name the parameters of each kernel (fatbin/).
#include "remote/cuda/client/code/kernel_parameters.h"

#include <algorithm>

#include "remote/cuda/client/objects/loaded_code.h"
#include "remote/cuda/parameter_places.h"

namespace ckpt::remote::cuda {
namespace {

// A function that was got of a kernel (cuKernelGetFunction) has the kernel's name.
const char *name_of_function(u64 function) {
  const char *name = nullptr;
  for (u64 number : {function, ledger().owner_of(function)})
    if (!name) (void)entry_cuFuncGetName(&name, reinterpret_cast<CUfunction>(number));
  return name;
}

bool is_declared(u64 function, const std::vector<ByteRange> &places) {
  const char *name = name_of_function(function);
  if (!name) return true;
  std::shared_ptr<const LoadedCode> code = ledger().code_of(function);
  const std::vector<fatbin::Parameter> *declared = code ? code->parameters_of(name) : nullptr;
  auto same = [](const fatbin::Parameter &a, const ByteRange &b) {
    return a.offset == b.offset && a.bytes == b.bytes;
  };
  return !declared || std::ranges::equal(*declared, places, same);
}

CUresult ask_for_layout(u64 function, ParameterLayout &out) {
  Bytes reply;
  CUresult e = ask(Op::Parameters, site_of_handle(function), Writer().put(function), &reply);
  if (e != CUDA_SUCCESS) return e;
  Reader r(reply);
  out.by_exact_grid = r.get<u8>() != 0;
  out.places = read_parameter_places(r);
  bool right = r.done() && is_declared(function, out.places);
  return right ? CUDA_SUCCESS : link().malformed();
}

// CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE.
CUresult take_packed(void **extra, Bytes &out) {
  const void *buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t *>(extra[1]);
  }
  if (bytes > 0 && !buffer) return CUDA_ERROR_INVALID_VALUE;
  ByteView all = view(buffer, bytes);
  out.assign(all.begin(), all.end());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult layout_of(u64 function, const ParameterLayout *&out) {
  static std::mutex mutex;
  static auto *const kKnown = new std::unordered_map<u64, ParameterLayout>;
  std::lock_guard lock(mutex);
  auto found = kKnown->find(function);
  if (found == kKnown->end()) {
    ParameterLayout layout{};
    if (CUresult e = ask_for_layout(function, layout); e != CUDA_SUCCESS) return e;
    found = kKnown->emplace(function, std::move(layout)).first;
  }
  out = &found->second;  // never erased, as numbers are not used again
  return CUDA_SUCCESS;
}

CUresult pack(u64 function, void **parameters, void **extra, Bytes &out) {
  if (extra)
    if (CUresult e = take_packed(extra, out); e != CUDA_SUCCESS) return e;
  const ParameterLayout *layout = nullptr;
  if (CUresult e = layout_of(function, layout); e != CUDA_SUCCESS) return e;
  const std::vector<ByteRange> &places = layout->places;
  u64 bytes = places.empty() ? 0 : places.back().offset + places.back().bytes;
  if (extra) return bytes <= out.size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  out.resize(bytes);
  if (places.empty()) return CUDA_SUCCESS;
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < places.size(); i++)
    std::memcpy(out.data() + places[i].offset, parameters[i], places[i].bytes);
  return CUDA_SUCCESS;
}

}  // namespace ckpt::remote::cuda
