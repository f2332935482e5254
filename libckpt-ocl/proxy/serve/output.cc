// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/output.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <thread>

#include "common/base/io.h"
#include "common/base/shortage.h"

namespace ckpt::ocl {
namespace {

// So large that the C library rarely writes it out by itself, past flush().
constexpr size_t kBufferBytes = 256u << 10;

}  // namespace

Result<> Output::capture() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe for kernels' output");
  pipe_.reset(ends[0]);
  UniqueFd write_end(ends[1]);
  ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  original_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (::dup2(write_end.get(), STDOUT_FILENO) < 0)
    return fail_errno("cannot replace the standard output");
  std::setvbuf(stdout, nullptr, _IOFBF, kBufferBytes);
  CKPT_TRY(std::thread reader, start_thread([this] {
             for (pollfd p{pipe_.get(), POLLIN, 0};; ::poll(&p, 1, -1)) forward();
           }));
  reader.detach();
  return {};
}

// The pipe may be too small for what the C library holds, so the reading thread goes on meanwhile.
void Output::flush() {
  std::lock_guard one_at_a_time(flushing_);
  forward(OutputWay::Direct);
  if (__fpending(stdout) == 0) return;
  forward(OutputWay::Buffered);
  std::fflush(stdout);
  forward(OutputWay::Direct);
}

void Output::forward(std::optional<OutputWay> next) {
  std::lock_guard lock(mutex_);
  pass_on();
  if (next) way_ = *next;
}

void Output::pass_on() {
  std::array<std::byte, kMostInRecord> piece;
  for (;;) {
    ssize_t n = ::read(pipe_.get(), piece.data(), piece.size());
    if (n <= 0) return;
    ByteView bytes(piece.data(), static_cast<size_t>(n));
    if (channel_.output(way_, bytes))
      original_.reset();  // a program that closes its own waits for no other process to do so
    else if (original_)
      (void)write_all(original_.get(), bytes);
  }
}

}  // namespace ckpt::ocl
