// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

// What a keeper was started with.
struct KeeperCommand {
  std::vector<std::string> words;
  std::string folder;          // its working folder
  std::string image_variable;  // $CKPT_IMAGE, ckpt-run's default of --image
  std::string program;         // the first word of the program's command line
};
KeeperCommand command_of_keeper(pid_t keeper, pid_t program);

// A program that others would start again here, or that others wait for, cannot move: a member of a
// job, and a program with a series of images, from which a batch system continues it.
Result<> refuse_ties(const KeeperCommand &keeper);

}  // namespace ckpt::tools
