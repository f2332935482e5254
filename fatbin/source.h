// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes come from: a file, which is never read as a whole, or memory.
#pragma once

#include <memory>
#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::fatbin {

class Source {
 public:
  virtual ~Source() = default;

  // Fills `into` from offset `at`; fewer bytes are an error. Thread-safe.
  virtual Result<> read(u64 at, std::span<std::byte> into) const = 0;
  // The bytes where they lie, if they lie in memory; else empty. Checked as read() does.
  virtual ByteView look(u64 at, u64 bytes) const = 0;
  virtual u64 size() const = 0;

  // One fixed record.
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
  // A regular file only: a pipe or a device has no size.
  static Result<std::unique_ptr<FileSource>> open(const std::string &path);

  Result<> read(u64 at, std::span<std::byte> into) const override;
  ByteView look(u64, u64) const override { return {}; }
  u64 size() const override { return size_; }
  int fd() const { return fd_.get(); }

 private:
  FileSource(UniqueFd fd, u64 size) : fd_(std::move(fd)), size_(size) {}
  UniqueFd fd_;
  u64 size_;
};

// Bytes that outlive the source.
class MemorySource : public Source {
 public:
  explicit MemorySource(ByteView bytes) : bytes_(bytes) {}

  Result<> read(u64 at, std::span<std::byte> into) const override;
  ByteView look(u64 at, u64 bytes) const override;
  u64 size() const override { return bytes_.size(); }

 private:
  ByteView bytes_;
};

// This process's whole memory: an offset is an address. What a program registers has no length, so
// nothing can be checked but what its own headers say; it must stay mapped.
class AddressSpace : public Source {
 public:
  Result<> read(u64 at, std::span<std::byte> into) const override;
  ByteView look(u64 at, u64 bytes) const override;
  u64 size() const override { return ~u64{0}; }
};

}  // namespace ckpt::fatbin
