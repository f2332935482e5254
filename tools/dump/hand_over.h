// SPDX-License-Identifier: Apache-2.0
//
// ckpt-migrate has the last dump of a program wait, with the program stopped and its image
// complete, until another machine can go on with it. Each word is one byte on a socket:
//
//   ckpt-dump      'D', then how long the program has been paused (f64, seconds)
//   ckpt-migrate   'E': end the program. A hang-up: let it go on
//   ckpt-dump      'K': all its processes have been killed, so that none runs again
#pragma once

#include "common/base/unique_fd.h"
#include "tools/dump/cancel.h"

namespace ckpt::tools {

class HandOver {
 public:
  HandOver(int connection, const Cancel &cancel);
  // Fails if the program is to go on here.
  Result<> wait(double paused_seconds);
  void killed();

 private:
  UniqueFd connection_;
  const Cancel &cancel_;
};

}  // namespace ckpt::tools
