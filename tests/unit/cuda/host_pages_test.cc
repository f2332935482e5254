// SPDX-License-Identifier: Apache-2.0
//
// The host's side of managed memory, and the handler of faults (common/proc/faults.h).
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>

#include "common/proc/faults.h"
#include "libckpt-cuda/memory/host_pages.h"
#include "libckpt-cuda/memory/worker.h"

using namespace ckpt;
using namespace ckpt::cuda;

namespace {

constexpr u64 kPart = 2u << 20;

u64 reserve(u64 bytes) {
  void *p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(p != MAP_FAILED);
  return reinterpret_cast<u64>(p);
}

volatile int &word(u64 address) { return *reinterpret_cast<volatile int *>(address); }

// Whether a child process survives f(), without the handler below.
template <class F>
bool survives(F f) {
  pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    f();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

u64 faulted_at = 0;
HostPages *resolved_in = nullptr;
bool resolve(u64 address, bool mapped) {
  faulted_at = address;
  if (!mapped || !resolved_in || !resolved_in->contains(address)) return false;
  size_t part = resolved_in->part_of(address);
  Holder next = resolved_in->holder(part) == Holder::Device ? Holder::Both : Holder::Host;
  return resolved_in->hold(part, part + 1, next);
}

sigjmp_buf back;
int own_calls = 0;
struct sigaction replaced {};
void own_handler(int signal, siginfo_t *info, void *context) {
  if (own_calls++ == 0) replaced.sa_sigaction(signal, info, context);  // closes the ring
  siglongjmp(back, 1);
}
void first_handler(int, siginfo_t *, void *) { siglongjmp(back, 2); }

struct sigaction with(void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction a {};
  a.sa_sigaction = handler;
  a.sa_flags = SA_SIGINFO | SA_NODEFER;
  return a;
}

}  // namespace

TEST_CASE("the program reads and writes what its side holds, and both views are the same pages") {
  u64 base = reserve(3 * kPart);
  std::unique_ptr<HostPages> pages = HostPages::make(base, 3 * kPart);
  REQUIRE(pages);
  CHECK(pages->parts() == 3);
  CHECK(pages->part_of(base + kPart) == 1);
  CHECK(word(base) == 0);
  REQUIRE(pages->hold(1, 2, Holder::Host));
  word(base + kPart + 8) = 5;
  CHECK(*reinterpret_cast<int *>(pages->alias(base + kPart + 8)) == 5);

  REQUIRE(pages->hold(0, 1, Holder::Device));
  *reinterpret_cast<int *>(pages->alias(base)) = 7;
  pages->hide();
  CHECK_FALSE(pages->shown());
  CHECK(*reinterpret_cast<int *>(pages->alias(base)) == 0);  // the device has it
  REQUIRE(pages->show());
  CHECK(word(base + kPart + 8) == 5);
  CHECK(pages->holder(0) == Holder::Device);
  pages.reset();
  // The addresses are still reserved.
  void *p = ::mmap(reinterpret_cast<void *>(base), kPart, PROT_READ,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  CHECK(p == MAP_FAILED);
}

TEST_CASE("large blocks have fewer parts, of which the last may be shorter") {
  u64 bytes = u64{6} << 30;
  std::unique_ptr<HostPages> pages = HostPages::make(reserve(bytes), bytes);
  REQUIRE(pages);
  CHECK(pages->parts() <= 2048);
  CHECK(pages->end_of(pages->parts() - 1) == pages->base() + bytes);
}

TEST_CASE("a forked child has none of the pages") {
  std::unique_ptr<HostPages> pages = HostPages::make(reserve(kPart), kPart);
  REQUIRE(pages);
  REQUIRE(pages->hold(0, 1, Holder::Host));
  u64 base = pages->base();
  CHECK_FALSE(survives([=] { word(base) = 1; }));
  pages->hide();
  REQUIRE(pages->show());
  CHECK_FALSE(survives([=] { word(base) = 1; }));
  CHECK(word(base) == 0);
}

TEST_CASE("faults are resolved, and others go to the program's handlers, in a ring as well") {
  struct sigaction before {};
  struct sigaction first = with(first_handler);
  REQUIRE(::sigaction(SIGSEGV, &first, &before) == 0);
  watch_faults(resolve);
  std::unique_ptr<HostPages> pages = HostPages::make(reserve(kPart), kPart);
  REQUIRE(pages);
  resolved_in = pages.get();
  REQUIRE(pages->hold(0, 1, Holder::Device));
  u64 base = pages->base();
  CHECK(word(base + 40) == 0);
  CHECK(faulted_at == base + 40);
  CHECK(pages->holder(0) == Holder::Both);
  word(base + 44) = 3;
  CHECK(pages->holder(0) == Holder::Host);

  int from = sigsetjmp(back, 1);
  if (from == 0) word(8) = 1;
  CHECK(from == 2);  // the first handler

  struct sigaction own = with(own_handler);
  REQUIRE(::sigaction(SIGSEGV, &own, &replaced) == 0);
  watch_faults(resolve);
  REQUIRE(pages->hold(0, 1, Holder::Device));
  CHECK(word(base + 44) == 3);
  from = sigsetjmp(back, 1);
  if (from == 0) word(16) = 1;
  CHECK(from == 2);
  CHECK(own_calls == 1);
  for (static int tries = 0; tries < 3; tries++) {  // which leaves the handler, and faults again
    from = sigsetjmp(back, 1);
    if (from == 0) word(16) = 1;
    CHECK(from == 1);
  }
  resolved_in = nullptr;
  ::sigaction(SIGSEGV, &before, nullptr);
}

TEST_CASE("a worker makes one call after the other") {
  static Worker *const kWorker = new Worker;
  REQUIRE(kWorker->start());
  int calls = 0;
  for (int i = 0; i < 100; i++) kWorker->run([&] { calls++; });
  CHECK(calls == 100);
  std::atomic<bool> go{false};
  kWorker->begin([&] {
    while (!go) {
    }
  });
  CHECK(kWorker->busy());
  CHECK_FALSE(kWorker->wait_until(Clock::now() + std::chrono::milliseconds(5)));
  go = true;
  CHECK(kWorker->wait_until(Clock::now() + std::chrono::seconds(60)));
}
