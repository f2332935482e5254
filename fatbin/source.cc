// SPDX-License-Identifier: Apache-2.0
#include "fatbin/source.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace ckpt::fatbin {
namespace {

Failure truncated(u64 at, u64 bytes, u64 size) {
  return fail(
      "cannot read {} bytes at offset {}: the data ends at {}, so it is truncated or damaged",
      bytes, at, size);
}

const std::byte *address(u64 at) { return reinterpret_cast<const std::byte *>(at); }

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string &path) {
  // O_NONBLOCK: opening a FIFO would otherwise wait for a writer (fifo(7)).
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno("cannot open {}", path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("cannot read the type and size of {}", path);
  if (!S_ISREG(st.st_mode)) return fail("{} is not a regular file", path);
  return std::unique_ptr<FileSource>(new FileSource(std::move(fd), static_cast<u64>(st.st_size)));
}

Result<> FileSource::read(u64 at, std::span<std::byte> into) const {
  if (!fits(at, into.size(), size_)) return truncated(at, into.size(), size_);
  while (!into.empty()) {
    ssize_t n = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read at offset {}", at);
    if (n == 0) return fail("the file was truncated while it was being read");
    at += static_cast<u64>(n);
    into = into.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<> MemorySource::read(u64 at, std::span<std::byte> into) const {
  if (!fits(at, into.size(), size())) return truncated(at, into.size(), size());
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + at, into.size());
  return {};
}

ByteView MemorySource::in_place(u64 at, u64 bytes) const {
  return fits(at, bytes, size()) ? bytes_.subspan(at, bytes) : ByteView();
}

Result<> AddressSpace::read(u64 at, std::span<std::byte> into) const {
  if (at == 0 || !fits(at, into.size(), size())) return truncated(at, into.size(), size());
  std::memcpy(into.data(), address(at), into.size());
  return {};
}

ByteView AddressSpace::in_place(u64 at, u64 bytes) const {
  return at != 0 && fits(at, bytes, size()) ? ByteView(address(at), bytes) : ByteView();
}

}  // namespace ckpt::fatbin
