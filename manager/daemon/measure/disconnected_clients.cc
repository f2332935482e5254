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

// A descriptor of a process can be read when the process has ended (pidfd_open(2)).
bool has_ended(const UniqueFd &process) {
  pollfd p{process.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace

void DisconnectedClients::add(pid_t pid, GpuIndex gpu, u64 bytes) {
  std::erase_if(all_, [&](const One &one) { return one.pid == pid && one.gpu == gpu; });
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process && errno != ESRCH)
    log::warn("what process {} has on a device is taken for free: cannot watch it: {}", pid,
              std::strerror(errno));
  if (process && !has_ended(process)) all_.push_back({pid, std::move(process), gpu, bytes});
}

void DisconnectedClients::remove(pid_t pid) {
  std::erase_if(all_, [pid](const One &one) { return one.pid == pid; });
}

u64 DisconnectedClients::bytes(GpuIndex gpu) {
  std::erase_if(all_, [](const One &one) { return has_ended(one.process); });
  u64 sum = 0;
  for (const One &one : all_)
    if (one.gpu == gpu) sum += one.bytes;
  return sum;
}

}  // namespace ckpt::manager
