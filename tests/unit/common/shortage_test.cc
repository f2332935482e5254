// SPDX-License-Identifier: Apache-2.0
#include "common/base/shortage.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include <doctest/doctest.h>

#include "common/base/io.h"
#include "common/base/parallel.h"
#include "common/base/unique_fd.h"

namespace ckpt::test {
namespace {

// Limits concern the whole process, so each is tried in a child. Returns its exit code, or minus
// the signal that ended it.
int in_child(const std::function<int()> &body) {
  pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void limit(__rlimit_resource_t resource, rlim_t value) {
  rlimit both{value, value};
  ::setrlimit(resource, &both);
}

TEST_CASE("a function that runs out of memory returns an error") {
  Result<int> r = guarded([]() -> Result<int> { throw std::bad_alloc(); });
  REQUIRE_FALSE(r);
  CHECK(r.error().what == "not enough memory");
  CHECK(r.error().hint.find("ulimit -v") != std::string::npos);
  CHECK(*guarded([]() -> Result<int> { return 7; }) == 7);
}

TEST_CASE("a thread that the system refuses is an error") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(in_child([] {
          limit(RLIMIT_AS, 1 << 20);
          // The C library keeps the stacks of threads that have ended, at most 40 MiB (glibc).
          for (int i = 0; i < 100; i++) {
            Result<std::thread> one = start_thread([] { ::pause(); });
            if (!one) return 0;
            one->detach();
          }
          return 1;
        }) == 0);
#endif
  bool ran = false;
  Result<std::thread> thread = start_thread([&] { ran = true; });
  REQUIRE(thread);
  thread->join();
  CHECK(ran);
}

TEST_CASE("an exception on one of several threads reaches the caller after all have ended") {
  std::atomic<int> calls = 0;
  auto body = [&](unsigned worker) {
    calls++;
    if (worker == 1) throw std::bad_alloc();
  };
  CHECK_THROWS_AS(run_parallel(3, body), std::bad_alloc);
  CHECK(calls == 3);
}

TEST_CASE("a write beyond the limit of file sizes is an error, and programs inherit no handler") {
  CHECK(in_child([] {
          survive_file_size_limit();
          UniqueFd file(::memfd_create("limit", 0));
          limit(RLIMIT_FSIZE, 10);
          Result<> written = write_all(file.get(), view("more than ten bytes"));
          if (written) return 1;
          return written.error().hint.find("ulimit -f") == std::string::npos ? 2 : 0;
        }) == 0);
  CHECK(in_child([] {
          survive_file_size_limit();
          ::execl("/bin/sh", "sh", "-c", "kill -XFSZ $$", nullptr);
          return 127;
        }) == -SIGXFSZ);
}

}  // namespace
}  // namespace ckpt::test
