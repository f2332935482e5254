// SPDX-License-Identifier: Apache-2.0
//
// The answer to CL_PROGRAM_BINARIES: the driver's own binary together with the source and options
// that it was built from. So a program that caches binaries and loads them again
// (clCreateProgramWithBinary) can be built on another device. Programs keep containers in files, so
// unpack() treats them as hostile input.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "libckpt-ocl/headers.h"

namespace ckpt::ocl {

struct Container {
  // One input of a linked program.
  struct Unit {
    struct Header {
      std::string name, source;
    };
    std::string source, options;
    std::vector<Header> headers;
    Headers files;
  };

  std::string device;       // identifies the driver and device of `native`
  std::string options;      // of the build, or of the link
  std::string source;       // empty: the program was linked, or has no source
  std::vector<Unit> units;  // the inputs of a linked program
  Bytes native;
  Headers files;  // that `source` includes

  Bytes pack() const;
  // No value: not a container, so perhaps a driver's own binary.
  static std::optional<Container> unpack(ByteView bytes);
};

}  // namespace ckpt::ocl
