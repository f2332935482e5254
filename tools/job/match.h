// SPDX-License-Identifier: Apache-2.0
//
// Whether a job can be checkpointed as one: each TCP connection of a member must lead to a member.
// Pure, so that it can be tested without a network.
#pragma once

#include <string>
#include <vector>

#include "tools/job/messages.h"
#include "tools/reasons.h"

namespace ckpt::tools {

struct MemberConnections {
  std::string member, node;
  std::vector<JobConnection> connections;
};

// Why it cannot. Members look one after the other, so a connection that has just been made or
// closed can be among the reasons; asking again helps then.
Reasons unmatched_connections(const std::vector<MemberConnections> &members);

}  // namespace ckpt::tools
