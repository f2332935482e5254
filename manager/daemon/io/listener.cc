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

// Who knocks is left waiting for that long when there is no descriptor for him.
constexpr std::chrono::milliseconds kPause{200};
constexpr std::chrono::seconds kComplaintPause{60};

// Whatever else stands there is not ours to remove, and we may be root.
Result<> remove_socket(const std::string &path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) < 0) {
    if (errno == ENOENT) return {};
    return fail_errno("cannot look at {}", path);
  }
  if (!S_ISSOCK(st.st_mode))
    return fail_with_hint(fmt::format("{} is there already, and is no socket", path),
                          "remove it, or give ckptd another --socket");
  if (::unlink(path.c_str()) < 0) return fail_errno("cannot remove {}", path);
  return {};
}

}  // namespace

Listener::~Listener() {
  if (!path_.empty()) (void)remove_socket(path_);
}

// The file of a ckptd that was killed is still there. Anyone may connect: who may speak is decided
// by uid, with a reason that can be read.
Result<> Listener::open(const std::string &path) {
  std::string lock = path + ".lock";
  lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_)
    return fail_with_hint(fmt::format("cannot open {}: {}", lock, std::strerror(errno)),
                          "give ckptd a --socket in a folder of its own user");
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) < 0)
    return fail_with_hint(fmt::format("another ckptd listens on {}", path),
                          "end it, or give this one another --socket");
  CKPT_CHECK(remove_socket(path));
  CKPT_TRY(listener_, listen_unix(path));
  path_ = path;
  if (::chmod(path.c_str(), 0666) < 0) return fail_errno("cannot chmod {}", path);
  return {};
}

int Listener::fd(Time now, size_t inside) {
  if (inside >= most_) complain(now, fmt::format("there are {} connections already", inside));
  return inside < most_ && now - shut_at_ >= kPause ? listener_.get() : -1;
}

int Listener::timeout(Time now) const {
  return now - shut_at_ >= kPause ? -1 : static_cast<int>(kPause.count());
}

// The connection that there is no descriptor for stays in the queue, and poll() would name it again
// at once (accept(2)).
std::optional<Listener::Guest> Listener::accept(Time now) {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd && (errno == EMFILE || errno == ENFILE)) {
    complain(now, std::string(std::strerror(errno)) + " (LimitNOFILE=, ulimit -n)");
    shut_at_ = now;
  }
  if (!fd) return std::nullopt;
  Result<ucred> who = peer_credentials(fd.get());
  if (!who) return std::nullopt;
  return Guest{std::move(fd), who->uid, who->pid};
}

void Listener::complain(Time now, const std::string &why) {
  if (now - said_at_ < kComplaintPause) return;
  said_at_ = now;
  log::warn("no program can join for now: {}", why);
}

}  // namespace ckpt::manager
