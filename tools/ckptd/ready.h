// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt::tools {

// Tells systemd, where it has started us (Type=notify), that programs may come: the datagram
// "READY=1" to $NOTIFY_SOCKET, which sd_notify(3) documents as a protocol that stays.
void tell_ready();

}  // namespace ckpt::tools
