// SPDX-License-Identifier: Apache-2.0
//
// For daemons that look at the world in rounds, with a pause between two.
#pragma once

#include <signal.h>

namespace ckpt::tools {

inline volatile sig_atomic_t stop_requested = 0;

// TERM and INT set stop_requested, and end a pause.
inline void catch_stop_signals() {
  struct sigaction act {};
  act.sa_handler = [](int) { stop_requested = 1; };  // without SA_RESTART: a signal ends the pause
  for (int s : {SIGTERM, SIGINT}) ::sigaction(s, &act, nullptr);
}

}  // namespace ckpt::tools
