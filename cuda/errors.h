// SPDX-License-Identifier: Apache-2.0
//
// The names and descriptions of an API's errors. The driver and the runtime API each have a table
// of their own, an .api file of ERROR(name, text) lines.
#pragma once

#include <cuda.h>

namespace ckpt::api {

template <class Error>
struct ErrorName {
  Error error;
  const char *name;
  const char *text;
};

// nullptr: the table has no such error.
template <class Error, unsigned long N>
const ErrorName<Error> *find_error(const ErrorName<Error> (&table)[N], Error error) {
  for (const ErrorName<Error> &e : table)
    if (e.error == error) return &e;
  return nullptr;
}

#define ERROR(name, text) \
  { name, #name, text }
inline constexpr ErrorName<CUresult> kDriverErrors[] = {
#include "cuda/errors.api"
};
#undef ERROR

// cuGetErrorName and cuGetErrorString: `what` is the member that the program asks for.
inline CUresult describe_error(CUresult error, const char **out,
                               const char *ErrorName<CUresult>::*what) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName<CUresult> *e = find_error(kDriverErrors, error);
  *out = e == nullptr ? nullptr : e->*what;
  return e == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace ckpt::api
