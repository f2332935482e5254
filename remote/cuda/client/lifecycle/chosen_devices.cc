// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/lifecycle/chosen_devices.h"

#include <algorithm>

namespace ckpt::remote::cuda {
namespace {

bool is_of_this_node(const std::string &id) { return !id.starts_with("remote:"); }

}  // namespace

bool ChosenDevices::are_split() const {
  return std::ranges::any_of(ids_, is_of_this_node) && !std::ranges::all_of(ids_, is_of_this_node);
}

std::vector<bool> ChosenDevices::here() const {
  std::vector<bool> all;
  for (const std::string &id : ids_) all.push_back(is_of_this_node(id));
  return all;
}

std::string ChosenDevices::ids_of(bool here) const {
  std::string all;
  for (const std::string &id : ids_)
    if (is_of_this_node(id) == here) all += (all.empty() ? "" : ",") + id;
  return all;
}

std::vector<CUdevice> ChosenDevices::numbers_of(bool here) const {
  std::vector<CUdevice> all;
  CUdevice next = 0;
  for (const std::string &id : ids_) all.push_back(is_of_this_node(id) == here ? next++ : -1);
  return all;
}

}  // namespace ckpt::remote::cuda
