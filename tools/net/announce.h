// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt::tools {

// Tells the neighbours, by an ARP announcement (RFC 5227, section 3) for each IPv4 address, that
// this machine has it. A machine that has taken another one's address over is not reached otherwise
// for up to a minute: the others go on sending to the interface that they know. Without the right
// to send it (CAP_NET_RAW) nothing happens, and they find out by themselves.
void announce_addresses();

}  // namespace ckpt::tools
