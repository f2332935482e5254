// SPDX-License-Identifier: Apache-2.0
//
// What one program for a device needs and has, as its cubin or its PTX tells.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::fatbin {

struct Parameter {
  u32 offset = 0;  // in bytes, in the buffer that a launch hands over
  u32 bytes = 0;
  bool operator==(const Parameter &) const = default;
};

struct Kernel {
  std::string name;  // mangled
  std::vector<Parameter> parameters;
  u32 parameter_bytes = 0;  // to the end of the last one
  bool operator==(const Kernel &) const = default;
};

enum class Space : u8 { Global, Constant, Managed };
const char *name_of(Space space);  // "global", …

struct Variable {
  std::string name;
  Space space = Space::Global;
  u64 bytes = 0;
  bool operator==(const Variable &) const = default;
};

// The references of CUDA 11 and before. Since then textures and surfaces are objects, which are
// values like any other: only the instructions tell of them.
enum class ReferenceKind : u8 { Texture, Surface, Sampler };
const char *name_of(ReferenceKind kind);  // "texture", …

struct Reference {
  std::string name;
  ReferenceKind kind{};
  bool operator==(const Reference &) const = default;
};

struct CodeFacts {
  std::string target;        // "sm_90a"
  bool relocatable = false;  // one translation unit of several: the linked program may have less
  std::vector<Kernel> kernels;
  std::vector<Variable> variables;  // without the compiler's own, such as strings
  std::vector<Reference> references;
  std::string allocates;  // by which function device memory is allocated in kernels; "": by none
  bool prints = false;    // printf; assert is none
  bool launches = false;  // kernels start kernels: dynamic parallelism
  bool is_device_runtime = false;  // a part of libcudadevrt.a, not of the program
  // Instructions on textures and surfaces; a cubin's cannot be read.
  std::optional<bool> uses_textures, uses_surfaces;
};

// Any bytes. What is no cubin, or reaches beyond itself, is an error. Names are bounded in number
// and length.
Result<CodeFacts> facts_of_cubin(ByteView cubin);

// Any text, as a PTX compiler would take it: what cannot be understood is passed over. An error
// only where there is no .target, or where names are beyond all bounds.
Result<CodeFacts> facts_of_ptx(std::string_view ptx);

}  // namespace ckpt::fatbin
