// SPDX-License-Identifier: Apache-2.0
//
// The namespaces in which ckpt-helper has restored programs. To dump such a program, CRIU has to
// run inside of them. It must not run inside of other namespaces, where another /opt or /lib may be
// mounted: a caller could replace CRIU with its own program.
//
// A namespace is remembered by a mark: a file in a folder that only root can write to, which names
// its first process. The mark counts while that process lives, so that one which a killed helper
// has left does not vouch for another namespace that has got the same numbers.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::helper {

class MadeNamespace {
 public:
  MadeNamespace() = default;
  // `first`: the first process of the namespaces.
  static Result<MadeNamespace> remember(const std::string &folder, pid_t first);
  MadeNamespace(MadeNamespace &&o) noexcept : file_(std::exchange(o.file_, {})) {}
  MadeNamespace &operator=(MadeNamespace &&o) noexcept {
    std::swap(file_, o.file_);
    return *this;
  }
  ~MadeNamespace();

 private:
  std::string file_;
};

// Whether the PID and mount namespaces with these inodes were remembered in `folder`.
bool is_made_namespace(const std::string &folder, u64 pids, u64 mounts);
// Removes the mark of namespaces that have ended.
void remove_dead_mark(const std::string &folder, const std::string &name);

}  // namespace ckpt::helper
