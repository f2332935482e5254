// SPDX-License-Identifier: Apache-2.0
//
// The rights with which CRIU works on a program:
//
//   Root     this tool is root's, and so is the program; or root's ckpt-run has started it
//   Own      as the user of this tool, who has the capabilities that CRIU needs
//   Helper   by ckpt-helper, for a user without these capabilities
//   ForUser  this tool is root's, program and ckpt-run belong to one other user: as that user. A
//            root without SYS_RESOURCE could not dump it, and devices open as the program's user.
//
// common/proc/identity.h says what the rights of a program are. docs/SECURITY.md has the rule by
// which they decide, docs/HELPER.md explains which rights CRIU needs, and why. With Helper and
// ForUser, CRIU is a child of a process of the room helper/ (criu_by_helper.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/proc/identity.h"
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
  helper::Identity user;      // the program's
  bool connections = false;   // ForUser: the program has TCP connections
  bool in_namespace = false;  // Root: of a user namespace (namespace_root.h), not of the machine

  bool by_helper() const { return way == Way::Helper || way == Way::ForUser; }
  bool unprivileged() const { return way != Way::Root; }
  // CRIU has to do without what the kernel lets the machine's root do alone.
  bool without_root() const { return unprivileged() || in_namespace; }
  // With whose rights this tool, too, opens the program's files.
  Credentials for_files() const { return unprivileged() ? Credentials(user) : Credentials(); }
};

// What is missing goes to `reasons`.
CriuRights rights_to_dump(const Target &target, Reasons &reasons);
// Fails unless the threads that CRIU has recorded have the rights for which `rights` were chosen.
Result<> check_recorded_rights(const CriuRights &rights, const Ownership &recorded);
// Why only ckpt-restore --as-root can restore the image of such a dump; "": it is not needed.
std::string why_as_root(const CriuRights &rights, const Ownership &owner);
// For a dump that ends the program: what root lacks for a restore here.
void check_root_can_restore(Reasons &reasons);

struct RestoreRequest {
  Ownership recorded;          // of the image's threads
  bool new_namespace = false;  // a PID that the program needs is in use
  bool as_root = false;        // root has named this image (--as-root)
};
CriuRights rights_to_restore(const ImageManifest &m, const RestoreRequest &request,
                             Reasons &reasons);

// Of all threads of the program, as /proc shows them now.
Ownership ownership_of(const Target &target);
// For a tool that root runs: the user who has started the program, if that is another user. The
// tool then does only what that user could do.
std::optional<helper::Identity> user_served(const Target &target);

// The socket of ckpt-helper: $CKPT_HELPER, or the installed one.
std::string helper_socket();

// For the child that becomes CRIU: makes the exec keep what CRIU needs of the capabilities of
// Way::Own, and no others. Otherwise does nothing.
std::function<void()> keep_own_capabilities(const CriuRights &rights);

}  // namespace ckpt::tools
