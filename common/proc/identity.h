// SPDX-License-Identifier: Apache-2.0
//
// With which rights the threads of a program run: all that the kernel asks for when a thread opens
// a file, traces a process or executes a program (credentials(7), capabilities(7)). Tools and
// helper decide by this alone with which rights CRIU works on a program. no_new_privs, system call
// filters and labels of security modules give no right, so they do not decide.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/as_user.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt {

struct ThreadIdentity {
  enum class UserNamespace { Ours, Other, Unknown };

  pid_t process = 0, thread = 0;
  std::array<uid_t, 4> uids{};  // real, effective, saved, of the file system
  std::array<gid_t, 4> gids{};
  std::vector<gid_t> groups;
  u64 inheritable = 0, permitted = 0, effective = 0, ambient = 0;  // capabilities
  u32 securebits = 0;  // only an image says these: the kernel tells them to the thread alone
  UserNamespace user_namespace = UserNamespace::Ours;
};

// Of every thread of a process that has not ended: none if all have. Fails if one cannot be read.
// The main thread may have ended while others, with other rights, go on.
Result<std::vector<ThreadIdentity>> identities_of(pid_t process);

// How the rights of a thread differ from those of `user`, who has no capabilities: "process 12 has
// gid 110 instead of 1000"; "" if they do not.
std::string difference(const ThreadIdentity &t, const Credentials &user);

struct Ownership {
  // Whose rights all threads have, with no right more. uid 0: root's, in our user namespace, with
  // any groups and capabilities.
  std::optional<Credentials> user;
  std::string why;  // no user: the first reason

  bool is_root() const { return user && user->uid == 0; }
  bool is(const Credentials &other) const;
};
Ownership ownership_of(std::span<const ThreadIdentity> threads);

}  // namespace ckpt
