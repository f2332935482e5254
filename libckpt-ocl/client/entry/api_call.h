// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/link/gate.h"
#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {

// One call of the API: inside the gate from construction to destruction. At its end it reports the
// memory that was released meanwhile to the Manager, if that is enough for a message.
class ApiCall {
 public:
  ApiCall() { gate().enter(); }
  ~ApiCall() {
    if (gate().outermost() && releases_to_report()) report_releases();
    gate().leave();
  }
  ApiCall(const ApiCall &) = delete;
};

// A clRelease… function. `invalid` is the API's error for an invalid handle.
template <class T>
cl_int release_call(const void *handle, cl_int invalid) {
  ApiCall call;
  cl_int r = release<T>(handle, invalid);
  link().flush_releases();
  return r;
}

}  // namespace ckpt::ocl
