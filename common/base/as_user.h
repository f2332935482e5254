// SPDX-License-Identifier: Apache-2.0
//
// Opens files with the rights of another user. A tool that root runs on a user's program must not
// access a file at a path of that user unless the user could: the path may lead anywhere. The
// kernel checks such accesses against the file system uid (setfsuid(2)) and the capabilities for
// files (capabilities(7)), which a tool may also have without being root.
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/base/bytes.h"

namespace ckpt {

struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

// While it exists, this thread accesses files with the rights of `user`. A tool that is not root's
// keeps its own uid and groups, but not its capabilities for files. Other threads are not affected.
class AsUser {
 public:
  explicit AsUser(const Credentials &user);
  AsUser(const AsUser &) = delete;
  ~AsUser();
  // False: the rights could not be changed, so nothing may be done.
  bool active() const { return active_; }

 private:
  void become(const Credentials &user);

  Credentials before_;
  u64 capabilities_ = 0;  // that were in force and were given up
  bool changed_ = false, active_ = true;
};

}  // namespace ckpt
