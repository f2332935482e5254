// SPDX-License-Identifier: Apache-2.0
//
// Where a connection comes from, by which a service bounds what one peer can take from the others.
#pragma once

#include <string>

namespace ckpt {

// "uid 1000" for a UNIX socket, by the kernel; "192.0.2.1" for TCP. An IPv6 peer chooses its
// address within a network of 64 bits (RFC 4291, section 2.5.1), so that network is its source.
std::string source_of(int socket);

}  // namespace ckpt
