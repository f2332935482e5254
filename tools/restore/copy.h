// SPDX-License-Identifier: Apache-2.0
//
// One of the copies that ckpt-start starts from a template: what a restore does otherwise for it.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/copy_facts.h"
#include "tools/restore/addresses.h"

namespace ckpt::tools {

struct Copy {
  CopyFacts facts;
  std::string output;  // the file that gets its standard output and error
  Addresses addresses;
  // A number that no other copy has while this one is restored. CRIU makes unlinked files under
  // their old names for a moment (criu/files-reg.c), which several copies cannot do at once. So the
  // names of each copy's files end in its mark.
  pid_t mark = 0;
};

}  // namespace ckpt::tools
