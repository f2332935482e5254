// SPDX-License-Identifier: Apache-2.0
//
// Finds the files that a source includes, so that a restore does not need them
//
// Only the driver's compiler knows which files it has read, and OpenCL has no query for that. So
// the source is searched for include directives, and so is each file that is found:
//
//   clBuildProgram(p, …, "-Ikernels -DREAL=real.h")          in /home/u
//     #include "a.h"          → /home/u/a.h, /home/u/kernels/a.h: those that exist
//     #include REAL           → the same for real.h, as REAL is defined by an option
//     #ifdef cl_khr_fp64
//     #include <double.h>     → also: the device of a restore may take this branch
//
// Additional files do no harm: they keep their paths, so the compiler's own rules choose among
// them. A name that is not found may be the driver's own header, or may be in a branch that no
// device takes; it is only recorded, and the preflight of a dump asks the compiler whether the
// program can be built without it.
//
// Cost: one read of each file and each folder of the search per name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libckpt-ocl/headers.h"

namespace ckpt::ocl {

struct FoundHeaders {
  Headers headers;
  std::vector<std::string> missed;  // names that were not found, or not kept; see above
};

// `given`: the headers of clCompileProgram, by name, which are programs and not files.
using GivenHeaders = std::vector<std::pair<std::string, std::string>>;
FoundHeaders find_headers(const std::string &source, const std::string &options,
                          const GivenHeaders &given = {});

}  // namespace ckpt::ocl
