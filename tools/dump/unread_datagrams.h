// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/dump/outer_pipes.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// Says which unread datagrams a restored program does not get, as CRIU saves no queue of UDP, raw
// and packet sockets. A network may lose datagrams anyway, so this is no reason to refuse a dump.
void remark_unread_datagrams(const Target &target, const DescriptorTable &table,
                             std::vector<std::string> &remarks);
// The same of a stopped program, and which datagrams of UNIX sockets come without the names of
// their senders, which CRIU does not save. Looking at these moves the socket's peek offset for a
// moment.
void remark_datagrams(const Target &target, const DescriptorTable &table,
                      std::vector<std::string> &remarks);

}  // namespace ckpt::tools
