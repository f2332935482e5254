// SPDX-License-Identifier: Apache-2.0
//
// A file in host memory that devices copy to and from directly: contents stay where the device
// wrote them, and no core copies them.
//
// The problem. A core copies memory at 5 to 10 GB/s and allocates the pages of a new file at 3 to 4
// GB/s, but a bus is faster than both (50 GB/s with PCIe 5.0). So cores must not copy the contents,
// and the pages must exist before the device writes.
//
// How it works. The file is divided into pieces of 32 MiB. One call allocates the pages of a piece
// (common/base/huge_pages.h), for several pieces at a time on several cores
// and ahead of the copies (pieces_ahead.h). No copy crosses the end of a piece, because each piece
// is page-locked by itself.
//
// Hugetlbfs (MFD_HUGETLB) is not used: its pages are the administrator's reserve for others.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/ipc/own_fd.h"
#include "agent/participant/participant.h"
#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::agent {

class DirectMemory {
 public:
  static constexpr u64 kPieceBytes = 32u << 20;
  // What is taken is a multiple of this, except at the end of a region.
  static constexpr u64 kGrain = 1u << 20;

  // Room for regions of `bytes` bytes in sum. Takes no memory yet.
  explicit DirectMemory(u64 bytes);
  // A file of another process, with contents, mapped. Refuses one that could shrink, because a copy
  // beyond its end would end this process.
  static Result<std::unique_ptr<DirectMemory>> of_file(int fd, u64 bytes) {
    return of_file(fd, bytes, Pages::InFile);
  }
  // The same for one that this process is to write.
  static Result<std::unique_ptr<DirectMemory>> of_empty_file(int fd, u64 bytes) {
    return of_file(fd, bytes, Pages::Missing);
  }
  ~DirectMemory() { unmap(); }
  DirectMemory(const DirectMemory &) = delete;

  // A new file of bytes(), mapped. It is sealed against any change of its size, so that another
  // process may map it. Fails where the addresses or the file are refused (RLIMIT_AS,
  // RLIMIT_FSIZE).
  Result<OwnFd> make_file();
  // Maps the file again after unmap().
  Result<> map(int fd);
  void unmap();

  u64 bytes() const { return bytes_; }  // of the file
  u64 pieces() const { return (bytes_ + kPieceBytes - 1) / kPieceBytes; }
  std::byte *at(u64 offset) const { return base_ + offset; }
  std::span<std::byte> piece(u64 number) const;
  static u64 piece_of(u64 offset) { return offset / kPieceBytes; }

  // Allocates the pages of a piece; existing pages keep their contents. From any thread, but not
  // from two for one piece. Fails if memory is short.
  Result<> populate(u64 number);

  struct Place {
    u64 at = 0;
    u64 bytes = 0;
  };
  // The next free bytes: `wanted`, or fewer at the end of a piece. None: the file is full.
  std::optional<Place> take(u64 wanted);
  // Frees the place for reuse.
  void give(Place place) { given_.push_back(place); }
  // The first piece that was never taken from.
  u64 next_piece() const { return piece_of(next_); }

 private:
  enum class Pages : u8 { Missing, InFile, Mapped };

  DirectMemory(u64 bytes, Pages pages);
  static Result<std::unique_ptr<DirectMemory>> of_file(int fd, u64 bytes, Pages pages);
  std::optional<Place> take_given(u64 wanted);

  const u64 bytes_;
  std::vector<Pages> pages_;  // of each piece
  u64 next_ = 0;              // the first byte that was never taken
  std::vector<Place> given_;
  void *reserved_ = nullptr;  // the addresses, which begin before base_
  std::byte *base_ = nullptr;
};

}  // namespace ckpt::agent
