// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/proc_maps.h"

#include <fcntl.h>

#include "agent/ipc/own_fd.h"
#include "common/base/file_text.h"
#include "common/proc/file.h"

namespace ckpt::agent {
Result<std::vector<ProcMapping>> own_mappings() {
  CKPT_TRY(OwnFd fd, OwnFd::make([] { return proc::open(proc::kSelf, "maps", O_RDONLY); }));
  CKPT_TRY(std::string text, text_behind(fd.get()));
  return parse_proc_maps(text);
}

}  // namespace ckpt::agent
