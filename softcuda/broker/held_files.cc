// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/held_files.h"

namespace ckpt::softcuda::broker {

void HeldFiles::hold(u64 file, u32 device, u64 bytes, u64 owner) {
  File &f = files_.try_emplace(file, File{device, bytes, {}}).first->second;
  f.owners[owner]++;
}

void HeldFiles::drop(u64 file, u64 owner) {
  auto f = files_.find(file);
  if (f == files_.end()) return;
  auto its = f->second.owners.find(owner);
  if (its == f->second.owners.end()) return;
  if (--its->second == 0) f->second.owners.erase(its);
  if (f->second.owners.empty()) files_.erase(f);
}

void HeldFiles::drop_all(u64 owner) {
  for (auto &[file, f] : files_) f.owners.erase(owner);
  std::erase_if(files_, [](const auto &file) { return file.second.owners.empty(); });
}

u64 HeldFiles::bytes(u32 device) const {
  u64 sum = 0;
  for (auto &[file, f] : files_)
    if (f.device == device) sum += f.bytes;
  return sum;
}

u64 HeldFiles::bytes_of(u64 owner, u32 device) const {
  u64 sum = 0;
  for (auto &[file, f] : files_)
    if (f.device == device && f.owners.begin()->first == owner) sum += f.bytes;
  return sum;
}

}  // namespace ckpt::softcuda::broker
