// SPDX-License-Identifier: Apache-2.0
//
// ckpt-softcuda-broker SOCKET CONFIGURATION: started by the first program that needs a software
// device; ends by itself when nobody has needed one for a second.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "softcuda/broker/broker.h"

using namespace ckpt;
using namespace ckpt::softcuda;

namespace {

// Nothing of the program that started us is kept: its terminal, its folder, its pipes.
void leave_home() {
  setsid();
  signal(SIGHUP, SIG_IGN);
  if (chdir("/") != 0) return;
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3 && null >= 0; ++fd) dup2(null, fd);
}

// A program may have left us any descriptors.
void close_others(int keep) {
  for (int fd = 3; fd < 1024; ++fd)
    if (fd != keep) close(fd);
}

Result<> serve(const char *path, const char *configuration) {
  CKPT_TRY(broker::Configuration c, broker::parse_configuration(configuration));
  unlink(path);
  CKPT_TRY(UniqueFd listener, listen_unix(path));
  pid_t pid = fork();
  if (pid < 0) return fail_errno("fork");
  if (pid > 0) _exit(0);
  leave_home();
  close_others(listener.get());
  Result<> end = broker::Broker(c, std::move(listener), path).run();
  unlink(path);
  return end;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "ckpt-softcuda-broker is started by the software device itself\n");
    return 2;
  }
  Result<> r = serve(argv[1], argv[2]);
  if (!r) std::fprintf(stderr, "ckpt-softcuda-broker: %s\n", r.error().text().c_str());
  return r ? 0 : 1;
}
