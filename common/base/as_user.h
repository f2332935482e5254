// SPDX-License-Identifier: Apache-2.0
//
// Files as another user would open them. A tool of root that works for a user's program must not do
// at a path of that user what the user could not: the path may lead anywhere. The file system uid
// (setfsuid(2)) is what the kernel checks such accesses by, and with another one than 0 root's
// rights to files are gone too (capabilities(7)).
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
// changes nothing: then they are this user's anyway. Other threads are not affected.
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
