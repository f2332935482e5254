// SPDX-License-Identifier: Apache-2.0
//
// Where device code is read from: a file, which is read piece by piece, or memory.
#pragma once

#include <memory>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::fatbin {

// Whether [at, at + bytes) lies within `size` bytes, for any values: nothing overflows.
constexpr bool fits(u64 at, u64 bytes, u64 size) { return at <= size && bytes <= size - at; }

class Source {
 public:
  virtual ~Source() = default;

  // Fills `into` from offset `at`; an error if the source ends before. Thread-safe.
  virtual Result<> read(u64 at, std::span<std::byte> into) const = 0;
  // A view of bytes that are in memory already; empty for a file, and for a range out of bounds.
  virtual ByteView in_place(u64 at, u64 bytes) const = 0;
  virtual u64 size() const = 0;

  // One record of fixed size.
  template <class T>
  Result<T> record(u64 at) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    CKPT_CHECK(read(at, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
};

class FileSource : public Source {
 public:
  // Only regular files: a pipe or a device has no size.
  static Result<std::unique_ptr<FileSource>> open(const std::string &path);

  Result<> read(u64 at, std::span<std::byte> into) const override;
  ByteView in_place(u64, u64) const override { return {}; }
  u64 size() const override { return size_; }
  int fd() const { return fd_.get(); }

 private:
  FileSource(UniqueFd fd, u64 size) : fd_(std::move(fd)), size_(size) {}
  UniqueFd fd_;
  u64 size_;
};

// `bytes` must outlive the source.
class MemorySource : public Source {
 public:
  explicit MemorySource(ByteView bytes) : bytes_(bytes) {}

  Result<> read(u64 at, std::span<std::byte> into) const override;
  ByteView in_place(u64 at, u64 bytes) const override;
  u64 size() const override { return bytes_.size(); }

 private:
  ByteView bytes_;
};

// All memory of this process; an offset is an address. A program registers code by its address
// alone, so the sizes in the code's own headers are the only limits, and the code must stay mapped.
class AddressSpace : public Source {
 public:
  Result<> read(u64 at, std::span<std::byte> into) const override;
  ByteView in_place(u64 at, u64 bytes) const override;
  u64 size() const override { return ~u64{0}; }
};

}  // namespace ckpt::fatbin
