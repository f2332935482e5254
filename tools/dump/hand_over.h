// SPDX-License-Identifier: Apache-2.0
//
// ckpt-migrate has the last dump of a program wait, with the program stopped and its image
// complete, until another machine can go on with it. Of each dump it learns what is written, so
// that it can be sent before the image is complete. Each word is one byte on a socket:
//
//   ckpt-dump      'F', then u32 length and path: the file with the chunks of a new image
//                  'W', then u64 offset, u32 bytes: they are in this file
//                  'D', then how long the program has been paused (f64, seconds)
//   ckpt-migrate   'E': end the program. A hang-up: let it go on
//   ckpt-dump      'K': all its processes have been killed, so that none runs again
#pragma once

#include <mutex>
#include <string>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "tools/dump/cancel.h"

namespace ckpt::tools {

class HandOver {
 public:
  HandOver(int connection, const Cancel &cancel);
  // Fails if the program is to go on here.
  Result<> wait(double paused_seconds);
  void killed();
  // Thread-safe. Never waits: ckpt-migrate sends later what it has not heard of.
  void written(const std::string &file, u64 offset, u32 bytes);

 private:
  UniqueFd connection_;
  const Cancel &cancel_;
  std::mutex mutex_;
  std::string file_;  // that it was told
};

}  // namespace ckpt::tools
