// SPDX-License-Identifier: Apache-2.0
#include "helper/visit.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/ipc/unix_socket.h"
#include "common/proc/remote_call.h"
#include "common/proc/stat.h"
#include "common/proc/status.h"
#include "helper/child.h"
#include "helper/protocol.h"

namespace ckpt::helper {
namespace {

using namespace std::chrono_literals;

// A process that CRIU has just released stops a moment later.
constexpr auto kStopTime = 2s;

// What the program's thread receives a descriptor with, all in its own memory.
struct Received {
  char byte;
  iovec part;
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))];
  msghdr message;
};

class Visitor {
 public:
  explicit Visitor(const Visit &v) : v_(v) {}

  Result<> run() {
    CKPT_CHECK(wait_until_stopped());
    CKPT_CHECK(hold());
    CKPT_CHECK(check_place());
    CKPT_CHECK(check_alone());
    CKPT_TRY(calls_, proc::RemoteCalls::in(v_.process, v_.process));
    CKPT_TRY(u64 at, calls_->put({}));
    CKPT_TRY(Bytes before, calls_->get(at, sizeof(Received)));
    CKPT_CHECK(connect());
    Result<> done = exchange();
    if (done) done = calls_->put(before).transform([](u64) {});
    if (!done) ::kill(v_.process, SIGKILL);  // it may have the device
    return done;
  }

 private:
  bool is_stopped() const {
    return std::ranges::all_of(proc::threads_of(v_.process), [this](pid_t thread) {
      Result<proc::Stat> s = proc::read_stat(v_.process, thread);
      return !s || s->state == 'T';
    });
  }

  Result<> wait_until_stopped() const {
    for (auto end = Clock::now() + kStopTime; !is_stopped(); std::this_thread::sleep_for(1ms))
      if (Clock::now() > end) return fail("process {} is not stopped", v_.process);
    return {};
  }

  // A thread that is held starts no other one.
  Result<> hold() {
    for (bool more = true; more;) {
      more = false;
      for (pid_t thread : proc::threads_of(v_.process)) {
        if (std::ranges::count(threads_, thread, [](const auto &t) { return t->id(); })) continue;
        threads_.push_back(std::make_unique<proc::SeizedThread>(thread));
        if (!kill_with_us(*threads_.back()))
          return fail("process {} cannot be traced by its user", v_.process);
        more = true;
      }
    }
    return threads_.empty() ? fail("there is no process {}", v_.process) : Result<>();
  }

  static bool kill_with_us(const proc::SeizedThread &thread) {
    return thread &&
           thread.request(PTRACE_SETOPTIONS, 0, reinterpret_cast<void *>(PTRACE_O_EXITKILL));
  }

  // While it is held, nothing else gets its PID.
  Result<> check_place() const {
    bool in_place =
        v_.pid_namespace != 0 && proc::namespace_inode(v_.process, "pid") == v_.pid_namespace &&
        proc::namespace_inode(v_.process, "user") == proc::namespace_inode(::getpid(), "user");
    return in_place ? Result<>() : fail("process {} is none of this restore", v_.process);
  }

  // Only its own threads could begin to share with another process. The stem shares with none.
  Result<> check_alone() const {
    for (pid_t other : proc::tree_of(v_.stem))
      for (int what : {KCMP_VM, KCMP_FILES}) {
        if (other == v_.stem || other == v_.process) continue;
        long order = ::syscall(SYS_kcmp, v_.process, other, what, 0, 0);
        if (order == 0 || (order < 0 && errno != ESRCH))
          return fail("process {} may share its memory or its descriptors with process {}",
                      v_.process, other);
      }
    return {};
  }

  Result<u64> call(long number, const proc::RemoteCalls::Arguments &a, const char *what) const {
    CKPT_TRY(i64 returned, calls_->call(number, a));
    if (returned >= 0) return static_cast<u64>(returned);
    errno = static_cast<int>(-returned);
    return fail_errno("process {} cannot {}", v_.process, what);
  }

  Result<> connect() {
    int ends[2] = {-1, -1};
    CKPT_TRY(u64 at, calls_->put(view(ends, sizeof ends)));
    CKPT_CHECK(call(SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, at}, "make a socket"));
    CKPT_TRY(Bytes made, calls_->get(at, sizeof ends));
    std::memcpy(ends, made.data(), sizeof ends);
    ours_ = proc::duplicate_descriptor(v_.process, ends[0]);
    theirs_ = static_cast<u64>(ends[1]);
    CKPT_CHECK(call(SYS_close, {static_cast<u64>(ends[0])}, "close its socket"));
    return ours_ ? Result<>() : fail_errno("cannot take a socket of process {}", v_.process);
  }

  // From the first call on, no other process of the caller can take a descriptor from there.
  Result<> exchange() {
    CKPT_CHECK(call(SYS_prctl, {PR_SET_DUMPABLE, 0}, "protect itself"));
    CKPT_CHECK(send_descriptor(ours_.get(), v_.device));
    CKPT_TRY(u64 device, receive());
    CKPT_TRY(u64 made, call(SYS_ioctl, {device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK},
                            "make a userfaultfd"));
    CKPT_CHECK(call(SYS_close, {device}, "close the device"));
    CKPT_CHECK(call(SYS_close, {theirs_}, "close its socket"));
    Writer w;
    w.put<i32>(static_cast<i32>(made));
    CKPT_CHECK(send_message(v_.asker, static_cast<u16>(Type::Userfaultfd), w.bytes()));
    char taken;
    CKPT_CHECK(read_exactly(v_.asker, &taken, 1));
    CKPT_CHECK(call(SYS_close, {made}, "close its userfaultfd"));
    CKPT_CHECK(call(SYS_prctl, {PR_SET_DUMPABLE, 1}, "be traced again"));
    return {};
  }

  // Addresses in it are known when it has its place, which is the same each time.
  Result<u64> receive() const {
    Received r{};
    CKPT_TRY(u64 at, calls_->put(view(&r, sizeof r)));
    auto place = [at](size_t offset) { return reinterpret_cast<void *>(at + offset); };
    r.part = {place(offsetof(Received, byte)), 1};
    r.message.msg_iov = static_cast<iovec *>(place(offsetof(Received, part)));
    r.message.msg_iovlen = 1;
    r.message.msg_control = place(offsetof(Received, control));
    r.message.msg_controllen = sizeof r.control;
    CKPT_CHECK(calls_->put(view(&r, sizeof r)));
    CKPT_CHECK(call(SYS_recvmsg,
                    {theirs_, at + offsetof(Received, message), MSG_CMSG_CLOEXEC | MSG_DONTWAIT},
                    "receive the device"));
    CKPT_TRY(Bytes control, calls_->get(at + offsetof(Received, control), sizeof r.control));
    int device = -1;
    std::memcpy(&device, control.data() + CMSG_LEN(0), sizeof device);
    return static_cast<u64>(device);
  }

  const Visit &v_;
  std::vector<std::unique_ptr<proc::SeizedThread>> threads_;
  std::optional<proc::RemoteCalls> calls_;
  UniqueFd ours_;  // our end of a socket pair; the process has the other one
  u64 theirs_ = 0;
};

Result<> try_visit(const Visit &v, const Identity &identity) {
  // Now it is a process of the caller, which must not get the device from it.
  if (!become(identity, 0) || ::prctl(PR_SET_DUMPABLE, 0) != 0 ||
      ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return fail_errno("cannot become the caller");
  return Visitor(v).run();
}

}  // namespace

void visit(const Visit &v, const Identity &identity) {
  close_all_but({v.device, v.asker});
  Result<> done = try_visit(v, identity);
  if (!done) refuse(v.asker, done.error());
  ::_exit(done ? 0 : 1);
}

}  // namespace ckpt::helper
