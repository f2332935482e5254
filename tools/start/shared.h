// SPDX-License-Identifier: Apache-2.0
//
// What the copies of one start would share, or what is in use already: addresses, and files that
// they write.
#pragma once

#include "tools/criu/criu_files.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"
#include "tools/restore/addresses.h"

namespace ckpt::tools {

struct SharedCheck {
  const ImageManifest &manifest;
  const CriuFiles &criu;
  const Addresses &addresses;
  u32 copies;
  bool share_files;
};

void check_shared(const SharedCheck &check, Reasons &reasons);

// The sockets of copy `number`, with their addresses.
void use_addresses(ImageManifest &m, const Addresses &addresses, u32 number);

}  // namespace ckpt::tools
