// SPDX-License-Identifier: Apache-2.0
#include "common/base/io.h"

#include <unistd.h>

namespace ckpt {
namespace {

// Calls write_some(remaining data, bytes written so far) until all is written.
template <class WriteSome>
Result<> write_with(ByteView data, WriteSome write_some) {
  for (size_t done = 0; done < data.size();) {
    ssize_t n = write_some(data.subspan(done), done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot write");
    if (n == 0) return fail("cannot write: no byte was accepted");
    done += static_cast<size_t>(n);
  }
  return {};
}

// Calls read_some(where to, room, bytes read so far) until all is read, or to the end of file.
template <class ReadSome>
Result<size_t> read_with(std::span<std::byte> into, ReadSome read_some) {
  size_t done = 0;
  while (done < into.size()) {
    ssize_t n = read_some(into.subspan(done), done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("cannot read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

}  // namespace

Result<> write_all(int fd, ByteView data) {
  return write_with(data, [fd](ByteView d, size_t) { return ::write(fd, d.data(), d.size()); });
}

Result<> write_all_at(int fd, ByteView data, off_t offset) {
  return write_with(data, [=](ByteView d, size_t done) {
    return ::pwrite(fd, d.data(), d.size(), offset + static_cast<off_t>(done));
  });
}

Result<> read_exactly(int fd, void *data, size_t size) {
  std::span<std::byte> into(static_cast<std::byte *>(data), size);
  CKPT_TRY(size_t done, read_with(into, [fd](std::span<std::byte> s, size_t) {
             return ::read(fd, s.data(), s.size());
           }));
  if (done < size) return fail("end of file after {} of {} bytes", done, size);
  return {};
}

Result<size_t> read_at(int fd, std::span<std::byte> into, off_t offset) {
  return read_with(into, [=](std::span<std::byte> s, size_t done) {
    return ::pread(fd, s.data(), s.size(), offset + static_cast<off_t>(done));
  });
}

}  // namespace ckpt
