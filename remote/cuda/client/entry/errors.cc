// SPDX-License-Identifier: Apache-2.0
#include "cuda/errors.h"

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

CUresult entry_cuGetErrorName(CUresult error, const char **out) {
  return api::describe_error(error, out, &api::ErrorName<CUresult>::name);
}

CUresult entry_cuGetErrorString(CUresult error, const char **out) {
  return api::describe_error(error, out, &api::ErrorName<CUresult>::text);
}

}  // namespace ckpt::remote::cuda
