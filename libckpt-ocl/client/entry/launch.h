// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>

#include "libckpt-ocl/client/command/command.h"
#include "libckpt-ocl/client/entry/kernel.h"

namespace ckpt::ocl {

using Sizes = std::array<size_t, 3>;

// What a program asks for beside kernel and arguments.
struct LaunchShape {
  cl_uint dims;
  std::optional<Sizes> offset, global, local;
  bool slice = false;  // of a launch in slices: the driver judges only its groups

  // Covers everything that the driver's decision can depend on, also the sizes of local memory. Of
  // the global size and offset it is whether they are a multiple, zero, or too large (OpenCL 3.0,
  // clEnqueueNDRangeKernel, errors). Without a local size the driver chooses one, so the global
  // size counts.
  u64 hash(const ArgumentList &values, const Queue &q) const;
  // Launches of one kernel with about as many work-items count as equally long (window.h).
  Work work(const Kernel &k) const;

 private:
  u64 size_class(cl_uint dimension) const;
};

// Whether the driver has accepted this shape.
Trip trip_of(Kernel &k, const ArgumentList &values, const LaunchShape &shape, const Queue &q);

// Arguments of a launch that is sent later: the values of now, and what keeps their memory objects
// until then.
struct LaunchArguments {
  ArgumentList values;
  ArgumentMemory memory;  // memory_of(values)
};

// Sends a launch with these arguments.
cl_int send_launch(Command &c, Kernel &k, const ArgumentList &values, const ArgumentMemory &memory,
                   const LaunchShape &shape);

}  // namespace ckpt::ocl
