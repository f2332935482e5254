// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/hand_over.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/base/bytes.h"
#include "common/base/io.h"
#include "common/base/test_points.h"

namespace ckpt::tools {
namespace {

constexpr int kTickMs = 100;

// Without SIGPIPE: ckpt-migrate may have ended.
Result<> say(int socket, ByteView words) {
  ssize_t sent = ::send(socket, words.data(), words.size(), MSG_NOSIGNAL);
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

void HandOver::killed() {
  test_point("killed");
  (void)say(connection_.get(), view("K"));
}

}  // namespace ckpt::tools
