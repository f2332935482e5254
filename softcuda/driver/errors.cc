// SPDX-License-Identifier: Apache-2.0
//
// cuGetErrorName, cuGetErrorString.
#include "softcuda/driver/process.h"
#include "softcuda/error_table.h"

namespace {

using ckpt::softcuda::ErrorName;

#define ERROR(name, text) \
  { name, #name, text }
constexpr ErrorName<CUresult> kErrors[] = {
#include "common/api/cuda_errors.api"
};
#undef ERROR

const ErrorName<CUresult> *find(CUresult error) {
  return ckpt::softcuda::find_error(kErrors, error);
}

}  // namespace

SOFTCUDA_API CUresult cuGetErrorName(CUresult error, const char **name) {
  REQUIRE(name != nullptr, CUDA_ERROR_INVALID_VALUE);
  const ErrorName<CUresult> *e = find(error);
  *name = e == nullptr ? nullptr : e->name;
  return e == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGetErrorString(CUresult error, const char **text) {
  REQUIRE(text != nullptr, CUDA_ERROR_INVALID_VALUE);
  const ErrorName<CUresult> *e = find(error);
  *text = e == nullptr ? nullptr : e->text;
  return e == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
