// SPDX-License-Identifier: Apache-2.0
//
// Checks that a detached process has no residue: what CRIU may and may not see.
//
// CRIU saves the memory, threads and descriptors of a process, and refuses what it cannot save.
// There are three things that it accepts although a restored copy could not use them, or that it
// notices only in the middle of a dump:
//
//   a memfd of ours          Staging memory, or the ring between application and OpenCL proxy. CRIU
//                            saves a shared memfd even if the process that shares it is not in
//                            the dump, and restores a private copy: writes no longer reach the
//                            other side.
//   a socket of the session  To the keeper, a tool or a proxy. CRIU notices in the middle of the
//                            dump that the peer is not part of the program, and gives up.
//   a device driver          It holds descriptors and mappings of a device (/dev/nvidia*, a pool of
//                            threads) that CRIU refuses or that mean nothing on another machine.
//
// Therefore detach() must have removed all of them. Example: a participant forgets to unmap its
// ring. Without the check below the dump succeeds and the copy hangs at its first OpenCL call, days
// later. With it the dump fails at once, names "a mapping of /memfd:ckpt-ring", and the program
// continues with its devices.
//
// What may remain: libckpt*.so with the agent's thread, the outcome pipe (ckpt-restore replaces it,
// agent/protocol.h), and a driver for which a participant guarantees that it holds no device state
// (Participant::answers_for), such as CUDA's driver after its own checkpoint.
//
// The search reads /proc/self/maps twice, and asks for the target and the address of each open
// descriptor. It happens once in a dump.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace ckpt::agent {

// Whether a participant answers for a mapped file of a driver.
using AnswersFor = std::function<bool(std::string_view file)>;

// The paths of mapped device drivers that no participant answers for: of a program that uses a
// driver without us.
Result<std::vector<std::string>> mapped_drivers(const AnswersFor &answered);

// Everything that detach() should have removed, one phrase each. `expected` are descriptors that
// may be open.
Result<std::vector<std::string>> residue(std::span<const int> expected,
                                         const std::string &session_folder,
                                         const AnswersFor &answered);

}  // namespace ckpt::agent
