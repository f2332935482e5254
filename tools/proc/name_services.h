// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::tools {

// Modules of libc's name service (nsswitch.conf(5)) that keep a connection to their daemon after
// the program has looked up a user, a group or a host. The program cannot close it. What its user
// can do, by the name of the daemon's socket; empty: the socket is of no such daemon.
std::string remedy_for_name_service(const std::string &socket);

}  // namespace ckpt::tools
