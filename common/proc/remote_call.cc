// SPDX-License-Identifier: Apache-2.0
#include "common/proc/remote_call.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>

#include "common/proc/file.h"
#include "common/proc/maps.h"
#include "common/proc/status.h"

namespace ckpt::proc {
namespace {

constexpr std::string_view kSyscall("\x0f\x05", 2);
constexpr u64 kRedZone = 128;  // below the stack pointer (System V ABI for x86-64, 3.2.2)
constexpr size_t kMostPutBytes = 256;

// The kernel's vDSO has one, for clocks that it cannot read (vdso(7)).
u64 find_syscall(pid_t process, int memory) {
  for (const ProcMapping &m : mappings_of(process)) {
    if (m.path != "[vdso]") continue;
    std::string code(m.end - m.begin, '\0');
    ssize_t n = ::pread(memory, code.data(), code.size(), static_cast<off_t>(m.begin));
    size_t at = n > 0 ? code.find(kSyscall) : std::string::npos;
    return at == std::string::npos ? 0 : m.begin + at;
  }
  return 0;
}

}  // namespace

Result<RemoteCalls> RemoteCalls::in(pid_t process, pid_t thread) {
  RemoteCalls calls;
  if (Result<proc::Status> s = proc::read_status(thread); s && s->seccomp != 0)
    return fail("it has a seccomp filter");
  CKPT_TRY(calls.memory_, proc::open(process, "mem", O_RDWR));
  calls.instruction_ = find_syscall(process, calls.memory_.get());
  if (calls.instruction_ == 0) return fail("it has no vDSO");
  calls.thread_ = std::make_unique<SeizedThread>(thread);
  if (!*calls.thread_) return fail("it cannot be traced");
  return calls;
}

// The thread's memory may be written from outside at any moment, its code too; what it has entered
// may not be changed any more. A call that was not asked for is not made. A trap of its code has no
// number (orig_rax).
bool RemoteCalls::enters(long number, const Arguments &a) const {
  user_regs_struct r{};
  if (!thread_->enter_system_call() || !thread_->request(PTRACE_GETREGS, 0, &r)) return false;
  if (r.orig_rax == static_cast<u64>(number) &&
      Arguments{r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9} == a)
    return true;
  r.orig_rax = ~0ull;
  if (thread_->request(PTRACE_SETREGS, 0, &r)) (void)thread_->leave_system_call();
  return false;
}

Result<i64> RemoteCalls::call(long number, const Arguments &a) const {
  user_regs_struct before{};
  u64 mask = 0, all = ~u64{0};
  void *size = reinterpret_cast<void *>(sizeof mask);
  if (!thread_->request(PTRACE_GETREGS, 0, &before) ||
      !thread_->request(PTRACE_GETSIGMASK, reinterpret_cast<u64>(size), &mask) ||
      !thread_->request(PTRACE_SETSIGMASK, reinterpret_cast<u64>(size), &all))
    return fail_errno("cannot read its registers");
  user_regs_struct r = before;
  r.rip = instruction_;
  r.rax = static_cast<u64>(number);
  r.orig_rax = ~0ull;  // it is in no system call that the kernel would begin again
  r.rdi = a[0], r.rsi = a[1], r.rdx = a[2], r.r10 = a[3], r.r8 = a[4], r.r9 = a[5];
  bool done = thread_->request(PTRACE_SETREGS, 0, &r) && enters(number, a) &&
              thread_->leave_system_call() && thread_->request(PTRACE_GETREGS, 0, &r);
  bool restored = thread_->request(PTRACE_SETREGS, 0, &before);
  restored &= thread_->request(PTRACE_SETSIGMASK, reinterpret_cast<u64>(size), &mask);
  if (!done || !restored) return fail("it did not make the system call");
  return static_cast<i64>(r.rax);
}

Result<u64> RemoteCalls::put(ByteView bytes) const {
  user_regs_struct r{};
  if (bytes.size() > kMostPutBytes || !thread_->request(PTRACE_GETREGS, 0, &r))
    return fail("cannot read its registers");
  u64 at = (r.rsp - kRedZone - kMostPutBytes) & ~u64{15};
  if (::pwrite(memory_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) !=
      static_cast<ssize_t>(bytes.size()))
    return fail_errno("cannot write to its stack");
  return at;
}

Result<Bytes> RemoteCalls::get(u64 address, size_t size) const {
  Bytes bytes(size);
  if (::pread(memory_.get(), bytes.data(), size, static_cast<off_t>(address)) !=
      static_cast<ssize_t>(size))
    return fail_errno("cannot read its stack");
  return bytes;
}

}  // namespace ckpt::proc
