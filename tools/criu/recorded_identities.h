// SPDX-License-Identifier: Apache-2.0
//
// The identities that CRIU's files give to the threads of a program. A restore obeys these, not
// what /proc has shown before the dump, and not the manifest.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/proc/identity.h"
#include "storage/read/image_reader.h"

namespace ckpt::tools {

class RecordedIdentities {
 public:
  static RecordedIdentities of(const storage::ImageReader &image);
  // Whether a file of CRIU's says anything about identities.
  static bool wants(std::string_view name);
  // `file`: its bytes, of which one more than kMaxCoreBytes suffice.
  void add(std::string_view name, ByteView file);

  Ownership ownership() const;

 private:
  std::vector<ThreadIdentity> threads_;
  std::string unreadable_;
};

}  // namespace ckpt::tools
