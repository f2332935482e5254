// SPDX-License-Identifier: Apache-2.0
//
// The parts of the process that the real driver would see if it ran inside: the working folder and
// the environment. The proxy gets both.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::ocl {

// The program's working folder; the root folder if it cannot be opened.
Result<UniqueFd> working_folder();
// A file with the environment that the program had at the first call of this function. Empty
// afterwards in another session: a restored copy finds its devices by the environment of
// ckpt-restore.
Result<UniqueFd> first_environment(const std::string &session);

// The folder in which the proxy is.
class ProxyFolder {
 public:
  // A descriptor of the program's folder if the proxy is elsewhere, else an empty one.
  Result<UniqueFd> to_follow();

 private:
  unsigned long device_ = 0, inode_ = 0;
};

}  // namespace ckpt::ocl
