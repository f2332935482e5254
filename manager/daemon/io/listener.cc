// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "common/base/log.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::manager {
namespace {

// Back-off after accept(2) has failed for lack of descriptors.
constexpr std::chrono::milliseconds kPause{200};
constexpr std::chrono::seconds kWarningInterval{60};

// Anything but a socket is left alone: ckptd may run as root.
Result<> remove_socket(const std::string &path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) < 0) {
    if (errno == ENOENT) return {};
    return fail_errno("cannot read the type of {}", path);
  }
  if (!S_ISSOCK(st.st_mode))
    return fail_with_hint(fmt::format("{} exists and is not a socket", path),
                          "remove it, or start ckptd with another --socket");
  if (::unlink(path.c_str()) < 0) return fail_errno("cannot remove {}", path);
  return {};
}

}  // namespace

Listener::~Listener() {
  if (!path_.empty()) (void)remove_socket(path_);
}

// The socket of a ckptd that was killed still exists and is replaced. Any user may connect; whether
// the user is served is decided by uid, so that a refused program learns the reason.
Result<> Listener::open(const std::string &path) {
  std::string lock = path + ".lock";
  lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_)
    return fail_with_hint(fmt::format("cannot open {}: {}", lock, std::strerror(errno)),
                          "start ckptd with a --socket in a folder that its user may write to");
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) < 0)
    return fail_with_hint(fmt::format("another ckptd listens on {}", path),
                          "end it, or start this one with another --socket");
  CKPT_CHECK(remove_socket(path));
  CKPT_TRY(listener_, listen_unix(path));
  path_ = path;
  if (::chmod(path.c_str(), 0666) < 0) return fail_errno("cannot chmod {}", path);
  return {};
}

int Listener::fd(Time now, size_t inside) {
  if (inside >= most_) warn(now, fmt::format("all {} connections are in use", inside));
  return inside < most_ && now - paused_at_ >= kPause ? listener_.get() : -1;
}

int Listener::timeout(Time now) const {
  return now - paused_at_ >= kPause ? -1 : static_cast<int>(kPause.count());
}

// A connection that finds no descriptor stays in the queue, so poll(2) would report it again at
// once (accept(2)).
std::optional<Listener::Connection> Listener::accept(Time now) {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd && (errno == EMFILE || errno == ENFILE)) {
    warn(now, std::string(std::strerror(errno)) + " (LimitNOFILE=, ulimit -n)");
    paused_at_ = now;
  }
  if (!fd) return std::nullopt;
  Result<ucred> peer = peer_credentials(fd.get());
  if (!peer) return std::nullopt;
  return Connection{std::move(fd), peer->uid, peer->pid};
}

void Listener::warn(Time now, const std::string &why) {
  if (now - warned_at_ < kWarningInterval) return;
  warned_at_ = now;
  log::warn("no program can join for now: {}", why);
}

}  // namespace ckpt::manager
