// SPDX-License-Identifier: Apache-2.0
//
// ckpt-softcuda-broker SOCKET CONFIGURATION. The first program that uses a software device starts
// it; it exits when no program has been connected for a second.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "common/base/open_files.h"
#include "softcuda/broker/broker.h"

using namespace ckpt;
using namespace ckpt::softcuda;

namespace {

// Gives up the terminal, the working folder and the standard streams of the program that started
// it.
void detach_from_parent() {
  setsid();
  signal(SIGHUP, SIG_IGN);
  if (chdir("/") != 0) return;
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) dup2(null, fd);
}

// Closes the descriptors that were inherited from the program.
void close_others(int keep) {
  for (int fd = 3; fd < 1024; ++fd)
    if (fd != keep) close(fd);
}

Result<> serve(const char *path, const char *configuration) {
  CKPT_TRY(broker::Configuration c, broker::parse_configuration(configuration));
  unlink(path);
  CKPT_TRY(UniqueFd listener, listen_unix(path));
  pid_t pid = fork();
  if (pid < 0) return fail_errno("cannot fork");
  if (pid > 0) _exit(0);
  detach_from_parent();
  close_others(listener.get());
  allow_many_descriptors();  // one for each connection, and for all that processes share
  Result<> end = broker::Broker(c, std::move(listener), path).run();
  unlink(path);
  return end;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(
        stderr,
        "ckpt-softcuda-broker: SOCKET and CONFIGURATION are missing; the software device starts "
        "this program itself\n");
    return 2;
  }
  Result<> r = serve(argv[1], argv[2]);
  if (!r) std::fprintf(stderr, "ckpt-softcuda-broker: %s\n", r.error().text().c_str());
  return r ? 0 : 1;
}
