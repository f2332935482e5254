// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt::tools {

// Tells the neighbours, by an ARP announcement (RFC 5227, section 3) for each IPv4 address, that
// this machine has it. Otherwise a machine that has taken over another machine's address is not
// reachable for up to a minute, because others continue to send to the interface that they know.
// Without the right to send it (CAP_NET_RAW) nothing is sent, and the others notice the change by
// themselves.
void announce_addresses();

}  // namespace ckpt::tools
