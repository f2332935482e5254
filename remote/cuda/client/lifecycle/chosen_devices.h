// SPDX-License-Identifier: Apache-2.0
//
// The devices that were chosen for the program, if some are of this node and the others of another
// one: "remote:gpu1/UUID", "UUID". The first one is the program's device 0.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "remote/cuda/server/device_numbers.h"

namespace ckpt::remote::cuda {

class ChosenDevices {
 public:
  explicit ChosenDevices(std::vector<std::string> ids) : ids_(std::move(ids)) {}

  bool are_split() const;
  // By device: whether it is of this node.
  std::vector<bool> here() const;
  // Those of this node, or the others, as the session keeper takes them.
  std::string ids_of(bool here) const;
  // For each device of the program its number among those, or -1.
  std::vector<CUdevice> numbers_of(bool here) const;

 private:
  std::vector<std::string> ids_;
};

}  // namespace ckpt::remote::cuda
