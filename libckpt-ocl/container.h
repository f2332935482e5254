// SPDX-License-Identifier: Apache-2.0
//
// What CL_PROGRAM_BINARIES answers: the driver's own binary together with the source and options it
// was built from. A program that caches binaries and brings them back (clCreateProgramWithBinary)
// can so be built again on another device. Files of it lie in programs' caches: hostile input.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::ocl {

struct Container {
  // One source of a program that was linked.
  struct Unit {
    struct Header {
      std::string name, source;
    };
    std::string source, options;
    std::vector<Header> headers;
  };

  std::string device;       // driver and device that `native` is for
  std::string options;      // of the build, or of the link
  std::string source;       // empty: the program was linked, or never had one
  std::vector<Unit> units;  // what it was linked from
  Bytes native;

  Bytes pack() const;
  // No value: not one of ours (a driver's own binary).
  static std::optional<Container> unpack(ByteView bytes);
};

}  // namespace ckpt::ocl
