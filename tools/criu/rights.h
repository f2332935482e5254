// SPDX-License-Identifier: Apache-2.0
//
// The rights with which CRIU works on a program:
//
//   Root     this tool is root's, and so is the program or its ckpt-run; or the program's processes
//            belong to several users
//   Own      as the user of this tool, who has the capabilities that CRIU needs
//   Helper   by ckpt-helper, for a user without these capabilities
//   ForUser  this tool is root's, program and ckpt-run belong to one other user: as that user. A
//            root without SYS_RESOURCE could not dump it, and devices open as the program's user.
//
// docs/HELPER.md explains which rights are needed, and why. With Helper and ForUser, CRIU is a
// child of a process of the room helper/ (criu_by_helper.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "helper/identity.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// The rights of a container in which CRIU works, as options of podman and docker.
inline constexpr const char *kContainerOptions =
    "--cap-add=CHECKPOINT_RESTORE --cap-add=SYS_PTRACE --cap-add=SYS_ADMIN --cap-add=NET_ADMIN "
    "--cap-add=SYS_TIME --security-opt=seccomp=unconfined";

struct CriuRights {
  enum class Way { Root, Own, Helper, ForUser };
  Way way = Way::Root;
  helper::Identity user;     // the program's
  bool connections = false;  // ForUser: the program has TCP connections

  bool by_helper() const { return way == Way::Helper || way == Way::ForUser; }
  bool unprivileged() const { return way != Way::Root; }
};

// What is missing goes to `reasons`.
CriuRights rights_to_dump(const Target &target, Reasons &reasons);
// For a dump that ends the program: what root lacks for a restore here.
void check_root_can_restore(Reasons &reasons);
// `new_namespace`: a PID that the program needs is in use.
CriuRights rights_to_restore(const ImageManifest &m, bool new_namespace, Reasons &reasons);

// The owner of the program, if all its processes belong to one user and have no capabilities.
std::optional<helper::Identity> owner_of(const Target &target);
// For a tool that root runs: the user who has started the program and owns all of it, if that is
// another user. The tool then does only what that user could do.
std::optional<helper::Identity> user_served(const Target &target);

// The socket of ckpt-helper: $CKPT_HELPER, or the installed one.
std::string helper_socket();

// For the child that becomes CRIU: makes the exec keep what Way::Own has. Otherwise does nothing.
std::function<void()> keep_own_capabilities(const CriuRights &rights);

}  // namespace ckpt::tools
