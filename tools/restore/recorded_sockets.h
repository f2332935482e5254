// SPDX-License-Identifier: Apache-2.0
//
// The addresses and TCP connections that a program had when it was dumped, and needs again.
#pragma once

#include <set>
#include <vector>

#include "tools/manifest/image_manifest.h"
#include "tools/net/connection_lock.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// Binds or connects each of them as CRIU will, and closes it again.
void check_sockets(const ImageManifest &m, Reasons &reasons);

// The ports that the program needs again.
std::set<u16> ports_of(const ImageManifest &m);

// The packets that a lock must stop while CRIU creates one end after the other.
std::vector<PacketFlow> flows_of(const ImageManifest &m);

}  // namespace ckpt::tools
