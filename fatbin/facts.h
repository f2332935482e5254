// SPDX-License-Identifier: Apache-2.0
//
// What one piece of device code, a cubin or a PTX text, contains and needs. cubin.h and ptx.h
// extract these facts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::fatbin {

struct Parameter {
  u32 offset = 0;  // in bytes, in the buffer of a launch's parameters
  u32 bytes = 0;
  bool operator==(const Parameter &) const = default;
};

struct Kernel {
  std::string name;  // mangled
  std::vector<Parameter> parameters;
  u32 parameter_bytes = 0;  // up to the end of the last parameter
  bool operator==(const Kernel &) const = default;
};

enum class Space : u8 { Global, Constant, Managed };
const char *name_of(Space space);  // "global", "constant", "managed"

struct Variable {
  std::string name;
  Space space = Space::Global;
  u64 bytes = 0;
  bool operator==(const Variable &) const = default;
};

// Texture, surface and sampler references, which CUDA 12 removed. Texture and surface objects,
// which replace them, are ordinary values; only instructions reveal their use.
enum class ReferenceKind : u8 { Texture, Surface, Sampler };
const char *name_of(ReferenceKind kind);  // "texture", "surface", "sampler"

struct Reference {
  std::string name;
  ReferenceKind kind{};
  bool operator==(const Reference &) const = default;
};

struct CodeFacts {
  std::string target;        // "sm_90a"
  bool relocatable = false;  // a translation unit; the linked program may contain less
  std::vector<Kernel> kernels;
  std::vector<Variable> variables;  // without compiler-generated ones, such as strings
  std::vector<Reference> references;
  std::string heap_function;       // an imported function that allocates from the heap; "": none
  bool prints = false;             // calls printf; assert does not count
  bool launches = false;           // kernels launch kernels: dynamic parallelism
  bool is_device_runtime = false;  // part of libcudadevrt.a, not of the program itself
  // Whether there are texture and surface instructions; unknown for a cubin, whose machine code is
  // not documented.
  std::optional<bool> uses_textures, uses_surfaces;
};

}  // namespace ckpt::fatbin
