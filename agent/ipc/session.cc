// SPDX-License-Identifier: Apache-2.0
#include "agent/ipc/session.h"

#include <atomic>
#include <cstdlib>

#include "common/ipc/unix_socket.h"

namespace ckpt::agent {
namespace {

// The session since the last restore; null: the one of CKPT_SESSION. A string is never freed, so
// that readers and forked children need no lock.
constinit std::atomic<const std::string *> g_moved{nullptr};

}  // namespace

std::string session_socket() {
  if (const std::string *moved = g_moved.load(std::memory_order_acquire)) return *moved;
  const char *socket = ::secure_getenv(protocol::kSessionVariable);
  return socket ? socket : "";
}

std::string session_folder() {
  std::string socket = session_socket();
  size_t slash = socket.rfind('/');
  return slash == socket.npos ? "." : socket.substr(0, slash);
}

void move_to_session(const std::string &socket) {
  {
    // For programs that this one executes. Replacing an existing variable only exchanges a pointer,
    // so getenv() in another thread is safe. The gate keeps a fork from copying setenv's lock.
    std::scoped_lock lock(fork_gate());
    if (::secure_getenv(protocol::kSessionVariable))
      ::setenv(protocol::kSessionVariable, socket.c_str(), 1);
  }
  g_moved.store(new std::string(socket), std::memory_order_release);
}

Result<Channel> connect_to_session() {
  CKPT_TRY(OwnFd socket, OwnFd::make([] { return connect_unix(session_socket()); }));
  return Channel(std::move(socket));
}

bool session_has_keeper() { return connect_to_session().has_value(); }

}  // namespace ckpt::agent
