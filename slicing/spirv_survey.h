// SPDX-License-Identifier: Apache-2.0
//
// What the pass over SPIR-V must know of a module: its built-in variables, the types of numbers,
// and why it must run whole.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "slicing/spirv_module.h"

namespace ckpt::slicing {

// Built-in variables of the numbers that slices have otherwise (OpenCL SPIR-V environment
// specification, section 2.9), and those from which these are computed.
enum class BuiltIn : u32 {
  NumWorkgroups = 24,
  WorkgroupSize = 25,
  WorkgroupId = 26,
  LocalInvocationId = 27,
  GlobalInvocationId = 28,
  WorkDim = 30,
  GlobalSize = 31,
  GlobalOffset = 33,
  GlobalLinearId = 34,
};

struct SpirvSurvey {
  std::string whole;      // why all kernels of the module run whole; empty: no reason
  bool may_wait = false;  // a work-group may wait for what another one writes
  // Ids of types; 0: the module does not have it.
  u32 uint = 0, ulong = 0, vector = 0, pointer = 0;  // 64 bits, three of them, an Input pointer
  std::map<BuiltIn, u32> variables;
  // Variables, and pointers to one number of a variable, whose values are others in a slice.
  std::unordered_map<u32, BuiltIn> changed;
  std::unordered_map<u32, u32> index;  // of such a pointer: the id of the number's index
  size_t decorations_end = 0;          // the instruction before which a decoration may stand
  size_t functions = 0;                // the first instruction of the first function
};

SpirvSurvey survey(const SpirvModule &module);

}  // namespace ckpt::slicing
