// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// CL_DEVICE_SVM_CAPABILITIES, as a program sees it.
cl_device_svm_capabilities shown_svm_capabilities(const Device &d);

// What all devices of the context have, because they share one memory. If that is nothing, the
// first call of each function says so in the log.
cl_device_svm_capabilities svm_capabilities(const Context &c, std::string_view function);

}  // namespace ckpt::ocl
