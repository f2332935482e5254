// SPDX-License-Identifier: Apache-2.0
//
// Opens files with the rights of another user. A tool that root runs on a user's program must not
// access a file at a path of that user unless the user could: the path may lead anywhere. The
// kernel checks such accesses against the file system uid (setfsuid(2)), and if it is not 0, root's
// capabilities for files are dropped as well (capabilities(7)).
#pragma once

#include <sys/types.h>

#include <vector>

namespace ckpt {

struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

// While it exists, this thread accesses files with the rights of `user`. Without root's rights it
// changes nothing, because the accesses then have this user's rights anyway. Other threads are not
// affected.
class AsUser {
 public:
  explicit AsUser(const Credentials &user);
  AsUser(const AsUser &) = delete;
  ~AsUser();
  // False: the rights could not be changed, so nothing may be done.
  bool active() const { return active_; }

 private:
  Credentials before_;
  bool changed_ = false, active_ = true;
};

}  // namespace ckpt
