// SPDX-License-Identifier: Apache-2.0
//
// The device memory that the owner holds, mapped for its copies.
#pragma once

#include <map>
#include <optional>

#include "driver-checkpoint/owner/memory_owner.h"
#include "driver-checkpoint/owner/owner_driver.h"

namespace ckpt::cuda {

// Memory that is still copied from may not be given back.
class HeldMemory {
 public:
  explicit HeldMemory(OwnerDriver &driver) : driver_(driver) {}

  struct Piece {
    UniqueFd handle;
    u64 bytes = 0;
    CUdeviceptr base = 0;
    CUcontext context = nullptr;  // on its device
    CUmemGenericAllocationHandle physical = 0;
  };
  Result<> add(SharedMemory memory);
  // Null: there is none with this key.
  const Piece *find(u64 key) const;
  // Takes at most `most` pieces out. What the program imports from their handles is not freed.
  std::vector<SharedMemory> take(size_t most);
  // After the program has imported what was taken: frees it here, so that it is free when the
  // program frees it.
  void let_go();

 private:
  Result<Piece> import(SharedMemory memory);

  OwnerDriver &driver_;
  std::map<u64, Piece> pieces_;
  std::vector<Piece> taken_;
};

}  // namespace ckpt::cuda
