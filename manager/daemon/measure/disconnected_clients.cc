// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/measure/disconnected_clients.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "common/base/log.h"

namespace ckpt::manager {
namespace {

// A pidfd becomes readable when its process has ended (pidfd_open(2)).
bool has_ended(const UniqueFd &process) {
  pollfd p{process.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace

void DisconnectedClients::add(pid_t pid, GpuIndex gpu, u64 bytes) {
  std::erase_if(clients_, [&](const Client &c) { return c.pid == pid && c.gpu == gpu; });
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process && errno != ESRCH)
    log::warn("cannot watch the disconnected process {}, so its device memory counts as free: {}",
              pid, std::strerror(errno));
  if (process && !has_ended(process)) clients_.push_back({pid, std::move(process), gpu, bytes});
}

void DisconnectedClients::remove(pid_t pid) {
  std::erase_if(clients_, [pid](const Client &c) { return c.pid == pid; });
}

u64 DisconnectedClients::bytes(GpuIndex gpu) {
  std::erase_if(clients_, [](const Client &c) { return has_ended(c.process); });
  u64 sum = 0;
  for (const Client &c : clients_)
    if (c.gpu == gpu) sum += c.bytes;
  return sum;
}

}  // namespace ckpt::manager
