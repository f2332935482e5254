// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

struct ErrorText {
  CUresult error;
  const char *name, *text;
};

#define ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
#include "common/api/cuda_errors.api"
};
#undef ERROR

CUresult find(CUresult error, const char **out, const char *ErrorText::*what) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  for (const ErrorText &e : kErrors)
    if (e.error == error) *out = e.*what;
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult entry_cuGetErrorName(CUresult error, const char **out) {
  return find(error, out, &ErrorText::name);
}

CUresult entry_cuGetErrorString(CUresult error, const char **out) {
  return find(error, out, &ErrorText::text);
}

}  // namespace ckpt::remote::cuda
