// SPDX-License-Identifier: Apache-2.0
//
// A variable or parameter as PTX declares it (PTX ISA 9.0, section 5.4). Views point into the text.
// What the specification leaves to implementations is as in NVIDIA's assembler (ptxas 13.0); the
// table of tests/unit/ptx/declarations.h was compared with it.
#pragma once

#include <string_view>
#include <vector>

#include "ptx/types.h"

namespace ckpt::ptx {

// Limits, because PTX may come from an untrusted file.
inline constexpr u64 kMaxVariableBytes = u64{1} << 40;  // more than any device has
inline constexpr u64 kMaxAlignment = 1u << 16;
inline constexpr size_t kMaxDimensions = 16;
inline constexpr size_t kMaxVariables = 1u << 20;

// A part of the text, in bytes.
struct Extent {
  size_t begin = 0, end = 0;
};

struct Variable {
  std::string_view name;
  Space space = Space::Global;
  Type type = Type::None;
  u8 lanes = 1;           // of a vector
  bool external = false;  // .extern: another module defines it
  bool hidden = true;     // no linkage: only this module knows the name
  bool managed = false;
  u32 align = 1;
  u64 bytes = 0;                // 0: the size is not declared, as for dynamic shared memory
  bool has_value = false;       // else all bytes are 0
  std::string_view definition;  // behind the name: "[3][2] = {{1, 2}, {3}}"
  Extent declaration;           // with its ';', and with the other variables that it declares
  u32 line = 0;
};

// The bytes of one value: a scalar or a vector.
inline u64 element_bytes(const Variable &v) { return size_of(v.type) * v.lanes; }

// Parameters of a kernel follow each other, each at the next multiple of its alignment (PTX ISA,
// section 7.1). The end is the offset behind the last one.
struct Layout {
  std::vector<u64> offsets;
  u64 end = 0;
};
Layout layout_of(const std::vector<Variable> &parameters);

}  // namespace ckpt::ptx
