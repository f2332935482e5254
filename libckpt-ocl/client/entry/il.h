// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// Values of specialization constants, as clSetProgramSpecializationConstant has sent them: those
// that the last build has used. The caller holds the program's lock.
std::vector<Bytes> constants_of_build(const Program &p);
// Gives another program such a value for its next build, and records it.
cl_int give_constant(Program &p, Bytes payload);

}  // namespace ckpt::ocl
