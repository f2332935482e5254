// SPDX-License-Identifier: Apache-2.0
#include "agent/word.h"

#include <sys/stat.h>
#include <unistd.h>

#include "agent/channel.h"

namespace ckpt {
namespace {

using protocol::Word;

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

Result<HeardWord> read_word(int fd) {
  u32 size = 0;
  CKPT_CHECK(read_patiently(fd, &size, sizeof size));
  if (size > protocol::kMaxWordBytes) return fail("the tool's word has {} bytes", size);
  Bytes body(size);
  CKPT_CHECK(read_patiently(fd, body.data(), size));
  Reader in(body);
  HeardWord heard{in.get<Word>(), in.get<u32>(), std::string(in.str())};
  bool known =
      heard.word == Word::Continue || heard.word == Word::Restored || heard.word == Word::Failed;
  if (!in.done() || !known) return fail("the tool's word makes no sense");
  return heard;
}

}  // namespace

HeardWord hear_word(const OwnFd &pipe) {
  Result<HeardWord> heard = read_word(pipe.get());
  if (heard) return std::move(*heard);
  return {Word::Failed, 0,
          "the tool ended without saying whether the image is complete: " + heard.error().what};
}

bool is_pipe(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

}  // namespace ckpt
