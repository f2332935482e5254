// SPDX-License-Identifier: Apache-2.0
//
// What the client has to know of a function before a launch, as the driver says. Asked once for
// each function.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "remote/cuda/server/objects.h"

namespace ckpt::remote::cuda {

struct Place {
  size_t offset, bytes;
};
struct Layout {
  std::vector<Place> parameters;
  // Its blocks are in clusters, of which a grid must be a multiple (CUDA driver API,
  // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), or the driver does not say.
  bool by_exact_grid = true;
};

class Layouts {
 public:
  explicit Layouts(const Objects &objects) : objects_(objects) {}

  CUresult find(u64 number, std::shared_ptr<const Layout> &out);
  // The object of this number has ended.
  void forget(u64 number);

 private:
  const Objects &objects_;
  std::mutex mutex_;
  std::unordered_map<u64, std::shared_ptr<const Layout>> all_;
};

}  // namespace ckpt::remote::cuda
