// SPDX-License-Identifier: Apache-2.0
//
// Copies of device memory that are made while the program still runs, so that a checkpoint has to
// fetch only what has changed since (copies_ahead.cc).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "remote/cuda/client/memory/memory.h"
#include "remote/cuda/piece_hash.h"

namespace ckpt::remote::cuda {

class CopiesAhead {
 public:
  // At most `rounds` rounds, and `most` bytes, until stop() is true. What cannot be copied is left
  // to the checkpoint.
  using Stop = std::function<bool()>;
  void copy(u32 rounds, u64 most, const Stop &stop);
  void drop() { copies_.clear(); }

  // Reads a block: take() gets its pieces in order. Null: there is no copy of this block.
  using Take = std::function<Result<>(ByteView)>;
  std::optional<CUresult> read(const Memory::Block &block, const Take &take);

 private:
  struct Copy {
    u64 bytes = 0, context = 0;
    std::unique_ptr<std::byte[]> memory;
    std::vector<PieceHash> hashes;  // none: nothing is copied yet
  };
  struct Round {
    u64 wanted = 0, changed = 0;  // bytes
  };
  Round copy_once(u64 most, const Stop &stop);
  static bool update(u64 base, Copy &copy, Round &round, const Stop &stop);

  std::map<u64, Copy> copies_;  // by address
};

CopiesAhead &copies_ahead();

}  // namespace ckpt::remote::cuda
