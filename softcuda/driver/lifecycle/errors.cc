// SPDX-License-Identifier: Apache-2.0
#include "cuda/errors.h"

#include "softcuda/driver/state/process.h"

using ckpt::api::ErrorName;

SOFTCUDA_API CUresult cuGetErrorName(CUresult error, const char **name) {
  return ckpt::api::describe_error(error, name, &ErrorName<CUresult>::name);
}

SOFTCUDA_API CUresult cuGetErrorString(CUresult error, const char **text) {
  return ckpt::api::describe_error(error, text, &ErrorName<CUresult>::text);
}
