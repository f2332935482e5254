// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/outcome_pipe.h"

#include <sys/stat.h>
#include <unistd.h>

#include "agent/ipc/channel.h"

namespace ckpt::agent {
namespace {

using protocol::Outcome;

// read() comes back with EINTR after every dump, and with EAGAIN if the tool made the pipe so.
Result<> read_patiently(int fd, void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = ::read(fd, static_cast<char *>(data) + done, size - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n == 0) return fail("end of file");
    if (n < 0 && errno != EINTR && errno != EAGAIN) return fail_errno("cannot read");
    if (n < 0) CKPT_CHECK(wait_readable(fd));
  }
  return {};
}

Result<CheckpointOutcome> read_word(int fd) {
  u32 size = 0;
  CKPT_CHECK(read_patiently(fd, &size, sizeof size));
  if (size > protocol::kMaxOutcomeBytes) return fail("the tool's word has {} bytes", size);
  Bytes body(size);
  CKPT_CHECK(read_patiently(fd, body.data(), size));
  Reader in(body);
  CheckpointOutcome heard{in.get<protocol::Outcome>(), in.get<u32>(), std::string(in.str())};
  bool known = heard.word == Outcome::Continue || heard.word == Outcome::Restored ||
               heard.word == Outcome::Failed;
  if (!in.done() || !known) return fail("the tool's word makes no sense");
  return heard;
}

}  // namespace

CheckpointOutcome read_outcome(const OwnFd &pipe) {
  Result<CheckpointOutcome> heard = read_word(pipe.get());
  if (heard) return std::move(*heard);
  return {Outcome::Failed, 0,
          "the tool ended without saying whether the image is complete: " + heard.error().what};
}

bool is_pipe(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

}  // namespace ckpt::agent
