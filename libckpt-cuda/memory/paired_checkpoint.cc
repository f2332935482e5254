// SPDX-License-Identifier: Apache-2.0
//
// The functions of PairedMemory for a checkpoint.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libckpt-cuda/memory/paired_memory.h"

namespace ckpt::cuda {

Result<> PairedMemory::settle() {
  std::lock_guard lock(state_);
  for (const auto &[base, block] : blocks_)
    for (size_t part = 0; part < block.pages->parts(); part++)
      if (block.pages->holder(part) == Holder::Both && !hold(block, part, Holder::Host))
        return fail_with_hint(
            fmt::format("cannot change the access to managed memory at {:#x}: {}", base,
                        std::strerror(errno)),
            "if the process has very many mappings, raise vm.max_map_count (sysctl(8))");
  return {};
}

// Each block up to the last part with an allocation that the device holds.
std::vector<Contents> PairedMemory::contents() const {
  std::lock_guard lock(state_);
  std::vector<Contents> all = paired_blocks().contents();
  for (Contents &c : all) {
    const HostPages &pages = *blocks_.at(c.base).pages;
    size_t end = pages.part_of(c.base + c.bytes - 1) + 1;
    while (end > 0 && pages.holder(end - 1) != Holder::Device) end--;
    c.bytes = end == 0 ? 0 : std::min(c.bytes, pages.end_of(end - 1) - c.base);
  }
  std::erase_if(all, [](const Contents &c) { return c.bytes == 0; });
  return all;
}

Result<> PairedMemory::unmap_all() {
  {
    std::lock_guard lock(state_);
    for (const auto &[base, block] : blocks_) block.pages->hide();
  }
  CKPT_CHECK(paired_blocks().unmap_all());
  forget_dropped_blocks();
  return {};
}

Result<> PairedMemory::remap_all() {
  CKPT_CHECK(paired_blocks().remap_all());
  std::lock_guard lock(state_);
  for (const auto &[base, block] : blocks_)
    if (!block.pages->show())
      return fail_errno("cannot map the host's side of managed memory at {:#x} again", base);
  return {};
}

void PairedMemory::show_pages() {
  std::lock_guard lock(state_);
  for (const auto &[base, block] : blocks_) (void)block.pages->show();
}

}  // namespace ckpt::cuda
