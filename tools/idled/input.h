// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

// The keyboards and mice of this machine, through the kernel's input devices (input.h of Linux).
// What is typed is read and discarded; only the fact that something was typed is kept.
class InputDevices {
 public:
  // Fails if none can be opened.
  static Result<InputDevices> open(std::string folder = "/dev/input");
  // Whether a key or the mouse was used since the call before.
  bool used();

 private:
  explicit InputDevices(std::string folder) : folder_(std::move(folder)) {}
  void look_for_new();

  std::string folder_;
  std::map<std::string, UniqueFd> devices_;
  Clock::time_point looked_;
};

}  // namespace ckpt::tools
