// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ring/table.h"

struct _cl_icd_dispatch;

namespace ckpt::ocl {

// The table that the first word of every handle points to. It holds addresses in this library,
// which CRIU maps at the same addresses again.
const _cl_icd_dispatch *icd_dispatch();

// The ICD loader's first query: the platforms. The first call connects to a proxy.
cl_int platform_ids(cl_uint n, cl_platform_id *out, cl_uint *count);

}  // namespace ckpt::ocl

// One function for every line FORWARDED or LOCAL of the table.
namespace ckpt::ocl::entry {

#define FORWARDED(fn, ...) decltype(::fn) fn;
#define LOCAL(fn, how) decltype(::fn) fn;
#define REFUSED(fn, why)
#include "ring/opencl.api"
#undef FORWARDED
#undef LOCAL
#undef REFUSED

}  // namespace ckpt::ocl::entry
