// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt {

// Tells systemd, if it started this process (Type=notify), that this process listens: it sends the
// datagram "READY=1" to $NOTIFY_SOCKET, a protocol that sd_notify(3) documents as stable.
void tell_ready();

}  // namespace ckpt
