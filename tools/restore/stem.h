// SPDX-License-Identifier: Apache-2.0
//
// The stem: the process between keeper and program, out of which CRIU restores the program.
//
//   ckpt-restore (keeper) ── ckpt-restore --stem (stem) ── program
//                                                  └── criu restore (ends after the restore)
//
// Why a stem. CRIU must run inside of the surroundings that the program needs, and the keeper
// cannot enter them itself:
//
//   PID namespace  If one of the program's PIDs is in use, the program is restored in a new PID
//                  namespace, in which all are free. unshare(2) moves only later children there, so
//                  the namespace needs a first process, which reaps orphans.
//   terminals      The numbers of the pseudo-terminals that the program had made may be in use,
//   too.
//                  A new instance of devpts in the namespace has them free.
//   session        A pseudo-terminal can control a session only if the session's leader opens it.
//                  The keeper must stay in the session of the shell that has started it.
//   parent         `criu restore --restore-sibling` makes the program a child of CRIU's parent.
//                  The stem can therefore wait for the program, learn its exit code, and inherit
//                  its orphans.
//
// The stem is `ckpt-restore --stem JSON`, a process started by exec: the keeper has threads by
// then, and after a fork alone only async-signal-safe calls would be allowed.
//
// The steps, as events on a socket between stem and keeper:
//
//   1. The stem ignores signals, enters the namespace and the session, and runs CRIU.
//   2. CriuEnded. CRIU has left the program stopped. The stem closes all descriptors that it passed
//      on, so that it holds none of the program's streams open.
//   3. Started, with the root's PID. The keeper looks up the process and acknowledges. Until then
//      the program cannot end.
//   4. Continued. The stem has continued the program, except for processes that were stopped before
//      the dump. Until then a dump would take all of them for stopped ones.
//   5. Stopped, for each stop of the root by a signal. Ended, with its wait status.
//
// Without a namespace the stem then exits, and orphans pass to the keeper. In a namespace it stays
// until the last process has ended, because the kernel kills a namespace with its first process.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "helper/protocol.h"

namespace ckpt::tools {

struct StemOptions {
  std::vector<std::string> criu;   // the command line
  std::string folder;              // CRIU's working folder, with its log and pidfile
  int terminal = -1;               // CRIU's standard input
  std::vector<int> inherited;      // descriptors for --inherit-fd
  bool own_terminal = false;       // lead a new session on `terminal`
  bool new_namespace = false;      // create a PID and a mount namespace
  bool own_terminals = false;      // in a new namespace: with pseudo-terminals of its own
  pid_t last_pid = 0;              // in a new namespace: PIDs of helpers start above this
  std::string bind_from, bind_to;  // in a new namespace: a bind mount
  std::set<pid_t> leave_stopped;   // processes that were stopped before the dump
  bool isolated = false;           // in a user namespace of ckpt-run --isolate
  bool keep_capabilities = false;  // CRIU gets those that this process has
};

using StemEvent = helper::Event;

struct Stem {
  pid_t pid = 0;
  UniqueFd events;
};

Result<Stem> start_stem(const StemOptions &o);
// Waits for the next event. Fails if the stem has ended.
Result<StemEvent> next_event(int events);

// After Started: lets the stem continue the program, and waits until it has.
Result<> let_continue(int events);

// The main function of the stem.
int stem_main(const std::string &text);

}  // namespace ckpt::tools
