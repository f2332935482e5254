// SPDX-License-Identifier: Apache-2.0
//
// The program's arrays and texture objects. Arrays count as device memory of the user. Texture
// objects have no numbers: kernels get them as the driver made them.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {

class Arrays {
 public:
  // As DeviceMemory::Ask.
  using Ask = std::function<bool(i64 change)>;
  explicit Arrays(Ask ask) : ask_(std::move(ask)) {}

  CUresult make(const CUDA_ARRAY3D_DESCRIPTOR &d, CUarray &out);
  // The array of this number has these bytes; gives them back when it has ended.
  void add(u64 number, const CUDA_ARRAY3D_DESCRIPTOR &d);
  void forget(u64 number);

  void add_texture(bool surface, u64 object);
  // False: the program has no such object.
  bool remove_texture(bool surface, u64 object);

 private:
  Ask ask_;
  std::mutex mutex_;
  std::map<u64, u64> bytes_;  // by number
  std::set<std::pair<bool, u64>> textures_;
};

}  // namespace ckpt::remote::cuda
