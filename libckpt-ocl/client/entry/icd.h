// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/table.h"

struct _cl_icd_dispatch;

namespace ckpt::ocl {

// The table that every handle's first word points to. Addresses in it are those of this library,
// which CRIU maps again at the same place.
const _cl_icd_dispatch *icd_dispatch();

// What the ICD loader asks for first: our platforms, connecting to the devices on the first call.
cl_int platform_ids(cl_uint n, cl_platform_id *out, cl_uint *count);

}  // namespace ckpt::ocl

// One function for every line of the table that works.
namespace ckpt::ocl::entry {

#define FORWARDED(fn, ...) decltype(::fn) fn;
#define LOCAL(fn, how) decltype(::fn) fn;
#define REFUSED(fn, why)
#include "libckpt-ocl/opencl.api"
#undef FORWARDED
#undef LOCAL
#undef REFUSED

}  // namespace ckpt::ocl::entry
