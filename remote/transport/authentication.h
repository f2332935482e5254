// SPDX-License-Identifier: Apache-2.0
//
// How a program authenticates itself to a ckpt-devd of another node, as its environment says.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "common/base/result.h"
#include "remote/transport/tls.h"

namespace ckpt::remote {

// `wanted`: CKPT_REMOTE_AUTH. Otherwise certificates, unless there are none and munge is there.
Result<Authentication> choose_authentication(const std::string &wanted, bool has_certificates,
                                             bool has_munge);
Result<Authentication> chosen_authentication();

// CKPT_MUNGE_SOCKET; empty: the usual one.
std::string chosen_munge_socket();

// The users that ckpt-devd may run as: CKPT_DEVD_USER, or else root and this process's user.
Result<std::set<uid_t>> accepted_servers();

}  // namespace ckpt::remote
