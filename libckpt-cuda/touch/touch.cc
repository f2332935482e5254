// SPDX-License-Identifier: Apache-2.0
//
// libckpt-cuda-touch.so, named by LD_PRELOAD under ckpt-run --managed-memory=kept: functions of the
// C library that give a buffer to a system call.
//
// The problem. The program's managed memory has no access while a device has it
// (memory/paired_memory.h). An access of the program is a signal, which libcuda.so.1 resolves. An
// access of the kernel on the program's behalf is none: the call returns EFAULT, or less than was
// asked for.
//
// How it works. Before the call, libcuda.so.1 is asked to give the buffer to the host. It has said
// by which function, once there is such memory; before that, and in every other process that finds
// this file in its environment, the functions are the C library's with one load more. Only buffers
// are looked at, so an address that is not memory is still the kernel's to refuse.
//
// Callers that are compiled with _FORTIFY_SOURCE use the forms with __…_chk. What does not come
// through here is in docs/LIMITS.md. This file uses no C++ library and allocates nothing.
#undef _FILE_OFFSET_BITS  // each symbol has a definition of its own
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

enum class Use { Read, Write };  // what the call does with the buffer
using Touch = void (*)(unsigned long begin, size_t bytes, bool write);

std::atomic<Touch> g_touch{nullptr};

void touch(const void *begin, size_t bytes, Use use) {
  if (Touch f = g_touch.load(std::memory_order_acquire))
    f(reinterpret_cast<unsigned long>(begin), bytes, use == Use::Write);
}
void touch(const iovec *parts, size_t n, Use use) {
  for (size_t i = 0; parts != nullptr && i < n; i++)
    touch(parts[i].iov_base, parts[i].iov_len, use);
}
void touch(const msghdr *m, Use use) {
  if (m != nullptr && g_touch.load(std::memory_order_relaxed))
    touch(m->msg_iov, m->msg_iovlen, use);
}

// The C library's function. Looked up again by threads that come at the same time.
template <class F>
F next(std::atomic<F> &known, const char *name) {
  F found = known.load(std::memory_order_relaxed);
  if (found != nullptr) return found;
  found = reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
  known.store(found, std::memory_order_relaxed);
  return found;
}

}  // namespace

#define CKPT_EXPORT extern "C" [[gnu::visibility("default")]]

// `parameters` and `arguments` in parentheses, and what is touched.
#define WRAP(result, name, parameters, arguments, ...)              \
  static constinit std::atomic<result(*) parameters> next_##name{}; \
  CKPT_EXPORT result name parameters {                              \
    touch(__VA_ARGS__);                                             \
    return next(next_##name, #name) arguments;                      \
  }

// libcuda.so.1 calls it when the program gets its first managed memory.
CKPT_EXPORT void ckpt_touch_with(Touch f) { g_touch.store(f, std::memory_order_release); }

WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), p, n, Use::Write)
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), p, n, Use::Write)
WRAP(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at), p, n, Use::Write)
WRAP(ssize_t, readv, (int fd, const iovec *v, int n), (fd, v, n), v, size_t(n), Use::Write)
WRAP(ssize_t, preadv, (int fd, const iovec *v, int n, off_t at), (fd, v, n, at), v, size_t(n),
     Use::Write)
WRAP(ssize_t, preadv64, (int fd, const iovec *v, int n, off64_t at), (fd, v, n, at), v, size_t(n),
     Use::Write)
WRAP(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags), p, n, Use::Write)
WRAP(ssize_t, recvfrom, (int fd, void *p, size_t n, int flags, sockaddr *from, socklen_t *length),
     (fd, p, n, flags, from, length), p, n, Use::Write)
WRAP(ssize_t, recvmsg, (int fd, msghdr *m, int flags), (fd, m, flags), m, Use::Write)
WRAP(size_t, fread, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f), p, size *n,
     Use::Write)
WRAP(size_t, fread_unlocked, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f), p, size *n,
     Use::Write)

WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), p, n, Use::Read)
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), p, n, Use::Read)
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at), p, n,
     Use::Read)
WRAP(ssize_t, writev, (int fd, const iovec *v, int n), (fd, v, n), v, size_t(n), Use::Read)
WRAP(ssize_t, pwritev, (int fd, const iovec *v, int n, off_t at), (fd, v, n, at), v, size_t(n),
     Use::Read)
WRAP(ssize_t, pwritev64, (int fd, const iovec *v, int n, off64_t at), (fd, v, n, at), v, size_t(n),
     Use::Read)
WRAP(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags), p, n,
     Use::Read)
WRAP(ssize_t, sendto,
     (int fd, const void *p, size_t n, int flags, const sockaddr *to, socklen_t length),
     (fd, p, n, flags, to, length), p, n, Use::Read)
WRAP(ssize_t, sendmsg, (int fd, const msghdr *m, int flags), (fd, m, flags), m, Use::Read)
WRAP(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f), p, size *n,
     Use::Read)
WRAP(size_t, fwrite_unlocked, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f), p,
     size *n, Use::Read)

WRAP(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t room), (fd, p, n, room), p, n,
     Use::Write)
WRAP(ssize_t, __pread_chk, (int fd, void *p, size_t n, off_t at, size_t room), (fd, p, n, at, room),
     p, n, Use::Write)
WRAP(ssize_t, __pread64_chk, (int fd, void *p, size_t n, off64_t at, size_t room),
     (fd, p, n, at, room), p, n, Use::Write)
WRAP(ssize_t, __recv_chk, (int fd, void *p, size_t n, size_t room, int flags),
     (fd, p, n, room, flags), p, n, Use::Write)
WRAP(ssize_t, __recvfrom_chk,
     (int fd, void *p, size_t n, size_t room, int flags, sockaddr *from, socklen_t *length),
     (fd, p, n, room, flags, from, length), p, n, Use::Write)
WRAP(size_t, __fread_chk, (void *p, size_t room, size_t size, size_t n, FILE *f),
     (p, room, size, n, f), p, size *n, Use::Write)
