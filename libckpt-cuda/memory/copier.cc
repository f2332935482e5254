// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/memory/copier.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

namespace ckpt::cuda {
namespace {

// As long as the owner's copies may take (driver-checkpoint/owner/memory_owner.cc).
constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(5);

constinit std::atomic<int> g_connection{-1};

}  // namespace

void set_copier(UniqueFd connection) {
  forget_copier();
  g_connection = connection.release();
}

void forget_copier() {
  if (int fd = g_connection.exchange(-1); fd >= 0) ::close(fd);
}

// Nothing is sent on the connection, so it becomes readable at its end.
bool wait_for_copier() {
  pollfd end{g_connection.load(), POLLIN, 0};
  return end.fd >= 0 && ::poll(&end, 1, static_cast<int>(kPatience.count())) == 1;
}

}  // namespace ckpt::cuda
