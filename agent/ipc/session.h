// SPDX-License-Identifier: Apache-2.0
//
// The session that this process belongs to: a folder of ckpt-run or, after a restore, of
// ckpt-restore. session_socket() is declared in agent/participant/participant.h, because libckpt.so
// exports it.
#pragma once

#include <string>

#include "agent/ipc/channel.h"
#include "agent/participant/participant.h"

namespace ckpt::agent {

std::string session_folder();
// Changes the session of this process, and of the programs that it starts from now on.
void move_to_session(const std::string &socket);
Result<Channel> connect_to_session();
// False: it has ended, or was killed.
bool session_has_keeper();

}  // namespace ckpt::agent
