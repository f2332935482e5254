// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace ckpt::remote::cuda {

// Files in memory: a pipe that is full would block the driver.
Result<> Output::redirect() {
  for (Printed &p : printed_) {
    p.file.reset(::memfd_create("ckpt-cuda-output", MFD_CLOEXEC));
    if (!p.file || ::fcntl(p.file.get(), F_SETFL, O_APPEND) < 0 ||
        ::dup2(p.file.get(), p.stream) < 0)
      return fail_errno("cannot redirect what the driver prints");
  }
  return {};
}

void Output::forward(Connection &connection, Printed &p) {
  std::array<std::byte, 65536> piece;
  piece[0] = static_cast<std::byte>(p.stream);
  off_t before = p.at;
  for (ssize_t n; (n = ::pread(p.file.get(), piece.data() + 1, piece.size() - 1, p.at)) > 0;
       p.at += n)
    if (!connection.send(Frame::Output, std::span(piece).first(static_cast<size_t>(n) + 1))) return;
  if (p.at > before)
    (void)::fallocate(p.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, p.at);
}

void Output::forward(Connection &connection) {
  std::fflush(stdout);
  std::lock_guard lock(mutex_);
  for (Printed &p : printed_) forward(connection, p);
}

}  // namespace ckpt::remote::cuda
