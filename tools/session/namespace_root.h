// SPDX-License-Identifier: Apache-2.0
//
// Root of a user namespace that is not the machine's, as rootless containers have it (Podman,
// `unshare --user --map-root-user`): uid 0 there, a user for the machine. Its capabilities count
// for what belongs to the namespace (user_namespaces(7)): its processes, and those other namespaces
// that were made in it. For some of CRIU's work the kernel asks for those of the machine's root.
#pragma once

namespace ckpt::tools {

// Whether this process is such a root.
bool is_namespace_root();
// Whether this process's PID namespace was made in its user namespace. Only there may it choose
// PIDs (clone3(2), set_tid).
bool may_choose_pids();

}  // namespace ckpt::tools
