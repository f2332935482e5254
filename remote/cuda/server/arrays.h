// SPDX-License-Identifier: Apache-2.0
//
// The program's arrays, and its texture and surface objects. Arrays count as device memory of the
// user. Objects have no numbers: kernels get the driver's handles, from the program or in a cell.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {

class Arrays {
 public:
  // As DeviceMemory::Ask.
  using Ask = std::function<bool(i64 change)>;
  explicit Arrays(Ask ask) : ask_(std::move(ask)) {}

  CUresult make(const CUDA_ARRAY3D_DESCRIPTOR &d, CUarray &out);
  CUresult make_mipmap(const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels, CUmipmappedArray &out);
  // The array of this number has these bytes; gives them back when it has ended.
  void add(u64 number, const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels = 1);
  void forget(u64 number);

  // `key`: the driver's handle, or the address of the cell that holds it.
  void add_texture(bool surface, u64 key, u64 object);
  // The driver's handle; nothing: the program has no such object.
  std::optional<u64> remove_texture(bool surface, u64 key);

 private:
  template <class Make>
  CUresult make_counted(u64 bytes, Make make);

  Ask ask_;
  std::mutex mutex_;
  std::map<u64, u64> bytes_;  // by number
  std::map<std::pair<bool, u64>, u64> textures_;
};

}  // namespace ckpt::remote::cuda
