// SPDX-License-Identifier: Apache-2.0
//
// CRIU (criu.org) as an executable: where it is, whether it is new enough, and why it failed.
//
// The tools drive CRIU by its command line, never by its library, so that a user can repeat a
// failed run by hand. It saves and restores the host side of a program: processes, threads, memory,
// files, pipes, sockets between them. It knows nothing of devices, and would refuse them or, worse,
// save state that cannot be restored. So it must see only this:
//
//   no device    At a detach each agent removes every trace of a driver from its process: device
//                files, mappings, rings, sockets to proxies. check_residue() looks for residue.
//   no outside   Terminals, pipes and sockets that lead out of the program are refused by the
//                preflight, or replaced at a restore (--shell-job, --inherit-fd).
//   one pipe     In each process with an agent the read end of its outcome pipe stays open. CRIU
//                restores it as any other pipe; ckpt-restore passes in one of its own, and through
//                it tells the agent that its process is a restored copy.
//   no tools     The keeper and the proxies are parents and siblings of the program, outside of the
//                tree that CRIU dumps.
//
// A dump passes --leave-stopped: the tool decides after CRIU, once the image is complete, whether
// the program ends or continues. A restore passes it too, because CRIU would start one thread after
// the other, and fails if the program ends before the last one. The tools continue the program.
//
// Both pass --no-default-config, so that /etc/criu/default.conf changes nothing, and --file-locks.
// Both pass --tcp-established --network-lock skip: the preflight refuses connections with an end
// outside of the program, and tools/net/connection_lock.h stops the packets of the others.
// Both pass --libdir with a folder that has no plugins. A distribution's CRIU has cuda_plugin,
// which would lock, checkpoint and restore the CUDA driver a second time, without our map of
// devices (cuda_plugin_resume_devices_late in CRIU's plugins/cuda).
//
// CRIU's log level is -v4: the log is what criu_error() reads, and what a user can send to CRIU's
// developers. During a part of its work CRIU runs inside of the program and writes to the log from
// there. If the program's RLIMIT_FSIZE forbids that, the kernel kills the program (SIGXFSZ). So if
// that limit is small, CRIU logs errors only.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct Criu {
  std::string path;
  std::string version;  // "4.2.1"
};

// Looks at $CKPT_CRIU, private_criu() and PATH, in this order. Version 4.2 is the first
// one that dumps TCP and UDP sockets on kernel 6.18 (checkpoint-restore/criu commit 4b7398595).
Result<Criu> find_criu();

// "CRIU 4.2.1 (/usr/sbin/criu)", or why there is none.
std::string criu_found();

// Whether CRIU logs errors only: the program may write files of this size at most.
bool errors_only(u64 file_size_limit);

// Why CRIU failed, from the errors in its log, with a hint where the cause is known. `verb`: what
// CRIU was to do, "dump" or "restore".
Error criu_error(const std::string &log_path, const std::string &verb, int wait_status);

}  // namespace ckpt::tools
