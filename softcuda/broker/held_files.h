// SPDX-License-Identifier: Apache-2.0
//
// Device memory that processes share by descriptors (cuMemExportToShareableHandle): each file
// counts once, as long as any process has it. As with NVIDIA's driver it is booked to a process
// that has it.
#pragma once

#include <map>

#include "common/base/bytes.h"

namespace ckpt::softcuda::broker {

class HeldFiles {
 public:
  // One more time, by the connection `owner`. `file`: its inode.
  void hold(u64 file, u32 device, u64 bytes, u64 owner);
  // Once less. Does nothing if the connection does not hold it.
  void drop(u64 file, u64 owner);
  void drop_all(u64 owner);
  u64 bytes(u32 device) const;
  // Of those that are booked to this connection.
  u64 bytes_of(u64 owner, u32 device) const;

 private:
  struct File {
    u32 device = 0;
    u64 bytes = 0;
    std::map<u64, u64> owners;  // how often each holds it
  };
  std::map<u64, File> files_;
};

}  // namespace ckpt::softcuda::broker
