// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/outcome_pipe.h"

#include <sys/stat.h>
#include <unistd.h>

#include "agent/ipc/channel.h"

namespace ckpt::agent {
namespace {

using protocol::Outcome;

// Unlike read_exactly() this waits where the tool has made the pipe non-blocking (EAGAIN). read()
// fails with EINTR after every dump.
Result<> read_waiting(int fd, void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = ::read(fd, static_cast<char *>(data) + done, size - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n == 0) return fail("end of file");
    if (n < 0 && errno != EINTR && errno != EAGAIN) return fail_errno("cannot read");
    if (n < 0) CKPT_CHECK(wait_readable(fd));
  }
  return {};
}

bool is_known(Outcome outcome) {
  switch (outcome) {
    case Outcome::Continue:
    case Outcome::ContinueOwed:
    case Outcome::Restored:
    case Outcome::Failed: return true;
  }
  return false;
}

Result<CheckpointOutcome> read_message(int fd) {
  u32 size = 0;
  CKPT_CHECK(read_waiting(fd, &size, sizeof size));
  if (size > protocol::kMaxOutcomeBytes)
    return fail("the outcome message has {} bytes, which exceeds the limit", size);
  Bytes body(size);
  CKPT_CHECK(read_waiting(fd, body.data(), size));
  Reader in(body);
  CheckpointOutcome read{in.get<protocol::Outcome>(), in.get<u32>(), std::string(in.str())};
  if (!in.done() || !is_known(read.outcome)) return fail("the outcome message is malformed");
  return read;
}

}  // namespace

CheckpointOutcome read_outcome(const OwnFd &pipe) {
  Result<CheckpointOutcome> read = read_message(pipe.get());
  if (read) return std::move(*read);
  return {Outcome::Failed, 0,
          "the tool ended without reporting whether the image is complete: " + read.error().what};
}

PipeIdentity::PipeIdentity(const OwnFd &pipe) {
  struct stat st {};
  inode_ = ::fstat(pipe.get(), &st) == 0 ? st.st_ino : 0;
}

bool is_pipe(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

}  // namespace ckpt::agent
