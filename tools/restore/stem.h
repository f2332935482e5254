// SPDX-License-Identifier: Apache-2.0
//
// The stem: a process between the keeper and a restored program, out of which CRIU lets the program
// grow (`criu restore --restore-sibling`: the program becomes the stem's child, and its exit code
// can be waited for). It is the place for what the keeper cannot do to itself: be the first process
// of a new PID namespace, or lead a session on a pseudo-terminal. It is `ckpt-restore --stem JSON`:
// a fresh process, since the keeper has threads by then.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {

struct StemOptions {
  std::vector<std::string> criu;   // its command line
  std::string folder;              // CRIU's, and where its log and its pidfile are
  int terminal = -1;               // CRIU's standard input
  std::vector<int> inherited;      // descriptors for --inherit-fd
  bool own_terminal = false;       // a new session, led on `terminal`
  bool new_namespace = false;      // PIDs and mounts
  pid_t last_pid = 0;              // in a new namespace: our own PIDs start above this
  std::string bind_from, bind_to;  // in a new namespace: a folder to be seen at another's place
  std::set<pid_t> leave_stopped;   // were stopped when they were dumped; CRIU leaves all so
};

// What it says, one of these after the other.
struct StemEvent {
  enum Kind : int { CriuEnded = 1, Started, Stopped, Ended } kind;
  int value;  // CRIU's wait status; the root's PID in its namespace; the signal; the root's wait
              // status
};

struct Stem {
  pid_t pid = 0;
  UniqueFd events;
};

Result<Stem> start_stem(const StemOptions &o);
// No event: it is gone.
Result<StemEvent> next_event(int events);

// After Started: the root's PID was looked up; the program may run, and the stem reap.
Result<> acknowledge(int events);

// The stem's own main.
int stem_main(const std::string &text);

}  // namespace ckpt::tools
