// SPDX-License-Identifier: Apache-2.0
//
// Which commands of an OpenCL program are *questions*: all that it sends until it uses a device, if
// the answers depend on nothing but the node's devices. ckpt-devd keeps such answers (inventory.h),
// so that a program that only looks at the devices needs no driver.
//
//   MapDevices {devices 2, 3}       a question: which of the node's devices they are
//   Info {device 2, CL_DEVICE_…}    a question about the device that MapDevices has named
//   clCreateContext …               the program uses a device: there are no questions from here on
//
// Numbers in an Info are names that the program chose in MapDevices. So a question is known by its
// own bytes and those of MapDevices.
#pragma once

#include <optional>

#include "ring/wire.h"

namespace ckpt::remote {

// The commands of one connection, in their order.
class Questions {
 public:
  // What the question is known by; no value: the command is none, and no later one is.
  std::optional<Bytes> key(const ocl::CommandHeader &header, ByteView payload);

 private:
  std::optional<Bytes> mapped_;  // the payload of MapDevices
  bool over_ = false;
};

// The question that has this key, to be asked again.
struct Question {
  ocl::Op op{};
  ByteView payload;
};
Question question_of(ByteView key);

}  // namespace ckpt::remote
