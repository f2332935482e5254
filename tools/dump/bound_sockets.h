// SPDX-License-Identifier: Apache-2.0
//
// UNIX sockets whose file got another name after bind(2): a server binds a temporary name and
// renames it when it is ready. The kernel keeps the name of bind(2) (unix(7)), and CRIU binds that
// one again. A restore binds the present name instead (restore/image_edits.h).
#pragma once

#include <vector>

#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

class BoundSockets {
 public:
  static BoundSockets of(const Target &target);
  // Sockets whose name CRIU could not find again: bound to a relative path, then renamed.
  void check(Closables &reasons) const;
  std::vector<manifest::RenamedSocket> describe_renamed() const;

 private:
  struct Socket {
    pid_t pid;
    int fd;
    u64 inode;
    std::string bound, path;  // by bind(2), and now
    std::string process;
  };
  std::vector<Socket> renamed_;
};

}  // namespace ckpt::tools
