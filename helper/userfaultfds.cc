// SPDX-License-Identifier: Apache-2.0
#include "helper/userfaultfds.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/base/clock.h"
#include "common/ipc/unix_socket.h"
#include "common/proc/file.h"
#include "common/proc/status.h"
#include "helper/protocol.h"
#include "helper/visit.h"

namespace ckpt::helper {
namespace {

constexpr const char *kDevice = "/dev/userfaultfd";
constexpr int kVisitMs = 15'000;
constexpr size_t kMaxAnswerBytes = 4096;

Result<UniqueFd> open_device() {
  UniqueFd device(::open(kDevice, O_RDWR | O_CLOEXEC));
  if (device) return device;
  Error e = fail_errno("cannot open {}", kDevice).value();
  e.hint = "Linux 6.1 or later with CONFIG_USERFAULTFD has it";
  return Failure(std::move(e));
}

// What root's rights are used on was named by a process of the caller.
bool is_userfaultfd(const UniqueFd &fd) {
  return proc::link(proc::kSelf, fmt::format("fd/{}", fd.get())) == "anon_inode:[userfaultfd]";
}

bool has_device(pid_t process, int device) {
  return std::ranges::any_of(proc::descriptors_of(process), [=](int fd) {
    long order = ::syscall(SYS_kcmp, ::getpid(), process, KCMP_FILE, device, fd);
    return order == 0 || order < 0;
  });
}

// The caller can stop this process of its own, too, but not keep us waiting.
bool has_ended_well(pid_t visitor) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, visitor, 0)));
  pollfd p{process.get(), POLLIN, 0};
  int status = 0;
  return ::poll(&p, 1, kVisitMs) == 1 && ::waitpid(visitor, &status, WNOHANG) == visitor &&
         status == 0;
}

Result<int> number_from(const std::optional<Message> &answer) {
  if (!answer) return fail("the process that makes userfaultfds was killed");
  Reader in = answer->reader();
  if (static_cast<Type>(answer->type) == Type::Userfaultfd) return in.get<i32>();
  std::string what(in.str());
  return fail_with_hint(what, std::string(in.str()));
}

}  // namespace

Result<> agree_on_events(int userfaultfd) {
  constexpr u64 kEvents = UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP |
                          UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
  // The kernel reports forks only to a process with CAP_SYS_PTRACE.
  uffdio_api api{.api = UFFD_API, .features = kEvents, .ioctls = 0};
  if (::ioctl(userfaultfd, UFFDIO_API, &api) != 0)
    return fail_errno("the kernel refuses userfaultfd(2)");
  return {};
}

Result<> check_userfaultfds() {
  CKPT_TRY(UniqueFd device, open_device());
  UniqueFd fd(::ioctl(device.get(), USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK));
  return fd ? agree_on_events(fd.get()) : fail_errno("the kernel refuses userfaultfd(2)");
}

Result<UniqueFd> Userfaultfds::make(pid_t process) {
  if (process <= 1) return fail("process {} is none of this restore", process);
  if (!visited_.insert(process).second)
    return fail("a userfaultfd of process {} was asked for before", process);
  CKPT_TRY(UniqueFd device, open_device());
  CKPT_TRY(auto ends, socket_pair());
  Visit v{.process = process,
          .stem = stem_,
          .pid_namespace = proc::namespace_inode(stem_, "pid"),
          .device = device.get(),
          .asker = ends.second.get()};
  pid_t visitor = ::fork();
  if (visitor < 0) return fail_errno("cannot fork");
  if (visitor == 0) visit(v, identity_);
  ends.second.reset();
  Result<UniqueFd> taken = take(process, ends.first.get(), device.get());
  ends.first.reset();
  if (!has_ended_well(visitor) && taken)
    return fail("the process that makes userfaultfds was killed");
  return taken;
}

// The visitor holds the process until it is answered, so the number is of this process.
Result<UniqueFd> Userfaultfds::take(pid_t process, int visitor, int device) const {
  CKPT_TRY(auto answer, receive_message(visitor, kMaxAnswerBytes,
                                        Clock::now() + std::chrono::milliseconds(kVisitMs)));
  CKPT_TRY(int number, number_from(answer));
  UniqueFd fd = proc::duplicate_descriptor(process, number);
  if (!fd || !is_userfaultfd(fd)) return fail("process {} has made no userfaultfd", process);
  if (has_device(process, device)) return fail("process {} has kept {}", process, kDevice);
  CKPT_CHECK(agree_on_events(fd.get()));
  CKPT_CHECK(write_all(visitor, view("k")));
  return fd;
}

}  // namespace ckpt::helper
