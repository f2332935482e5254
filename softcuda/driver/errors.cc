// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/process.h"

namespace {

struct ErrorName {
  CUresult error;
  const char *name;
  const char *text;
};

#define ERROR(name, text) \
  { name, #name, text }

constexpr ErrorName kErrors[] = {
#include "softcuda/driver/errors.api"
};

const ErrorName *find(CUresult error) {
  for (const ErrorName &e : kErrors)
    if (e.error == error) return &e;
  return nullptr;
}

}  // namespace

SOFTCUDA_API CUresult cuGetErrorName(CUresult error, const char **name) {
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  const ErrorName *e = find(error);
  *name = e == nullptr ? nullptr : e->name;
  return e == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGetErrorString(CUresult error, const char **text) {
  REQUIRE(text != nullptr, CUDA_ERROR_INVALID_VALUE);
  const ErrorName *e = find(error);
  *text = e == nullptr ? nullptr : e->text;
  return e == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
