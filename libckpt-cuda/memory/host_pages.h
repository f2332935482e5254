// SPDX-License-Identifier: Apache-2.0
//
// The host's side of a block of managed memory (paired_memory.h): pages at the device's own
// address, which the program uses, and a second view of the same pages, which is always accessible.
// Copies go through the second view, because a driver would take the first address for the
// device's.
//
//   base    | part | part | part |   read and write, read only, or no access
//                 the same pages
//   alias   | part | part | part |   read and write
//
// The pages are not there in a forked child, as managed memory of a driver is not.
#pragma once

#include <memory>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::cuda {

// Which side has the current bytes of a part. Both: they are equal. The program may write to what
// is the host's, read what both have, and touch nothing of the device's.
enum class Holder : u8 { Device, Both, Host };

// Not thread-safe.
class HostPages {
 public:
  // Pages of zeros, held by both. `base` is reserved, and stays so when this object ends. Null: the
  // system gives no memory.
  static std::unique_ptr<HostPages> make(u64 base, u64 bytes);
  ~HostPages();
  HostPages(const HostPages &) = delete;

  u64 base() const { return base_; }
  u64 bytes() const { return bytes_; }
  bool contains(u64 address) const { return address - base_ < bytes_; }
  size_t parts() const { return holders_.size(); }
  size_t part_of(u64 address) const { return (address - base_) / part_bytes_; }
  u64 begin_of(size_t part) const { return base_ + part * part_bytes_; }
  u64 end_of(size_t part) const;
  Holder holder(size_t part) const { return holders_[part]; }
  std::byte *alias(u64 address) const { return alias_ + (address - base_); }

  // Parts from `first` up to `end`. False: the system refuses, and nothing has changed.
  bool hold(size_t first, size_t end, Holder holder);
  // The program cannot read or write them any more, whoever holds them.
  bool close(size_t first, size_t end);
  // What is closed has been copied to the device.
  void lend_closed(size_t part) { holders_[part] = Holder::Device; }

  // For a checkpoint: takes the pages away from `base`, and gives back the memory of what the
  // device holds. They return with the same access.
  void hide();
  bool show();
  bool shown() const { return shown_; }

 private:
  HostPages(u64 base, u64 bytes, std::byte *alias);
  bool set_access(size_t first, size_t end, Holder holder);

  const u64 base_, bytes_, part_bytes_;
  std::byte *const alias_;
  std::vector<Holder> holders_;
  bool shown_ = false;
};

}  // namespace ckpt::cuda
