// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/hand_over.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/base/io.h"
#include "common/base/test_points.h"

namespace ckpt::tools {
namespace {

constexpr int kTickMs = 100;

// Without SIGPIPE: ckpt-migrate may have ended.
Result<> say(int socket, ByteView words, int flags = 0) {
  ssize_t sent = ::send(socket, words.data(), words.size(), MSG_NOSIGNAL | flags);
  return sent == static_cast<ssize_t>(words.size()) ? Result<>() : fail("ckpt-migrate has ended");
}

}  // namespace

HandOver::HandOver(int connection, const Cancel &cancel)
    : connection_(connection), cancel_(cancel) {
  ::fcntl(connection, F_SETFD, FD_CLOEXEC);  // CRIU must not keep it open
}

Result<> HandOver::wait(double paused_seconds) {
  CKPT_CHECK(say(connection_.get(), Writer().put('D').put(paused_seconds).bytes()));
  for (;;) {
    CKPT_CHECK(cancel_.check());
    pollfd p{connection_.get(), POLLIN, 0};
    if (::poll(&p, 1, kTickMs) <= 0) continue;
    char word = 0;
    bool end = read_exactly(connection_.get(), &word, 1) && word == 'E';
    test_point("told-to-end");
    return end ? Result<>() : fail("no other machine goes on with the program");
  }
}

// A UNIX socket takes short words whole or not at all (unix_stream_sendmsg() in Linux).
void HandOver::written(const std::string &file, u64 offset, u32 bytes) {
  std::lock_guard lock(mutex_);
  if (file != file_) {
    if (!say(connection_.get(), Writer().put('F').str(file).bytes(), MSG_DONTWAIT)) return;
    file_ = file;
  }
  (void)say(connection_.get(), Writer().put('W').put(offset).put(bytes).bytes(), MSG_DONTWAIT);
}

void HandOver::killed() {
  test_point("killed");
  (void)say(connection_.get(), view("K"));
}

}  // namespace ckpt::tools
