// SPDX-License-Identifier: Apache-2.0
//
// The session that this process belongs to: a socket of ckpt-run or, later, of a ckpt-restore.
// session_socket() itself is exported: agent/participant/participant.h.
#pragma once

#include <string>

#include "agent/ipc/channel.h"
#include "agent/participant/participant.h"

namespace ckpt::agent {

std::string session_folder();
// From now on; also for programs that this one starts.
void move_to_session(const std::string &socket);
Result<Channel> connect_to_session();

}  // namespace ckpt::agent
