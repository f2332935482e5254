// SPDX-License-Identifier: Apache-2.0
//
// With which rights the threads of a program run: each field that decides, by itself.
#include "common/proc/identity.h"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <semaphore>
#include <thread>

#include "common/base/file_text.h"
#include "common/proc/capabilities.h"
#include "common/proc/stat.h"
#include "common/proc/status.h"

using namespace ckpt;

namespace {

ThreadIdentity a_thread(uid_t uid = 1000) {
  return {.process = 12,
          .thread = 12,
          .uids = {uid, uid, uid, uid},
          .gids = {100, 100, 100, 100},
          .groups = {4, 24}};
}

struct Row {
  const char *field;
  void (*change)(ThreadIdentity &);
  const char *says;
};

const Row kRows[] = {
    {"real uid", [](ThreadIdentity &t) { t.uids[0] = 7; }, "belongs to uid 7"},
    {"effective uid", [](ThreadIdentity &t) { t.uids[1] = 0; }, "belongs to uid 0"},
    {"saved uid", [](ThreadIdentity &t) { t.uids[2] = 0; }, "belongs to uid 0"},
    {"file system uid", [](ThreadIdentity &t) { t.uids[3] = 0; }, "belongs to uid 0"},
    {"real gid", [](ThreadIdentity &t) { t.gids[0] = 110; }, "has gid 110 instead of 100"},
    {"effective gid", [](ThreadIdentity &t) { t.gids[1] = 110; }, "has gid 110"},
    {"saved gid", [](ThreadIdentity &t) { t.gids[2] = 110; }, "has gid 110"},
    {"file system gid", [](ThreadIdentity &t) { t.gids[3] = 110; }, "has gid 110"},
    {"another group",
     [](ThreadIdentity &t) {
       t.groups = {4, 27};
     },
     "has the groups 4, 27 instead"},
    {"a group more", [](ThreadIdentity &t) { t.groups.push_back(27); }, "has the groups 4, 24, 27"},
    {"a group less", [](ThreadIdentity &t) { t.groups.clear(); }, "has no groups"},
    {"inheritable", [](ThreadIdentity &t) { t.inheritable = bit_of(CAP_NET_RAW); }, "CAP_NET_RAW"},
    {"permitted", [](ThreadIdentity &t) { t.permitted = bit_of(CAP_CHOWN); }, "CAP_CHOWN"},
    {"effective", [](ThreadIdentity &t) { t.effective = bit_of(CAP_SYS_ADMIN); }, "CAP_SYS_ADMIN"},
    {"ambient", [](ThreadIdentity &t) { t.ambient = bit_of(50); }, "capability 50"},
    {"securebits", [](ThreadIdentity &t) { t.securebits = 1; }, "securebits 0x1"},
    {"user namespace",
     [](ThreadIdentity &t) { t.user_namespace = ThreadIdentity::UserNamespace::Other; },
     "in another user namespace"},
    {"unreadable user namespace",
     [](ThreadIdentity &t) { t.user_namespace = ThreadIdentity::UserNamespace::Unknown; },
     "user namespace of process 12 cannot be read"},
};

// A program of two processes, of which one has a second thread.
Ownership with(const ThreadIdentity &odd, size_t at) {
  std::vector<ThreadIdentity> threads(3, a_thread());
  threads[at] = odd;
  return ownership_of(threads);
}

}  // namespace

TEST_CASE("a program whose threads have the rights of one user belongs to that user") {
  Ownership o = with(a_thread(), 0);
  REQUIRE(o.user);
  CHECK(o.is({1000, 100, {24, 4}}));  // in any order
  CHECK(!o.is_root());
  CHECK(!o.is({1001, 100, {4, 24}}));
  CHECK(!o.is({1000, 101, {4, 24}}));
  CHECK(!o.is({1000, 100, {4}}));
}

TEST_CASE("one field of one thread takes a program from its user") {
  for (const Row &row : kRows)
    for (size_t at : {1u, 2u}) {
      ThreadIdentity odd = a_thread();
      row.change(odd);
      Ownership o = with(odd, at);
      CHECK_MESSAGE(!o.user, row.field);
      CHECK_MESSAGE(o.why.find(row.says) != std::string::npos, row.field, ": ", o.why);
    }
}

TEST_CASE("all threads with the same additional right are not the user's either") {
  for (const Row &row : kRows) {
    ThreadIdentity odd = a_thread();
    row.change(odd);
    bool is_set = std::string_view(row.field).find("group") != std::string::npos;
    std::vector<ThreadIdentity> threads(2, odd);
    CHECK_MESSAGE(ownership_of(threads).user.has_value() == is_set, row.field);
  }
}

TEST_CASE("a program is root's if all its uids are 0 in our user namespace") {
  std::vector<ThreadIdentity> threads(2, a_thread(0));
  threads[1].gids = {5, 6, 7, 8};
  threads[1].groups = {9};
  threads[1].permitted = threads[1].effective = ~u64{0};
  CHECK(ownership_of(threads).is_root());
  for (size_t uid = 0; uid < 4; uid++) {
    std::vector<ThreadIdentity> others = threads;
    others[1].uids[uid] = 1000;
    CHECK(!ownership_of(others).user);
  }
  threads[1].user_namespace = ThreadIdentity::UserNamespace::Other;
  CHECK(!ownership_of(threads).user);
}

TEST_CASE("a program without a thread belongs to no user") { CHECK(!ownership_of({}).user); }

TEST_CASE("every thread is read, also with another gid than its process" *
          doctest::skip(::geteuid() != 0)) {
  std::binary_semaphore changed(0), done(0);
  std::thread other([&] {
    // The system call changes this thread alone.
    ::syscall(SYS_setresgid, -1, 12345, -1);
    changed.release();
    done.acquire();
  });
  changed.acquire();
  Result<std::vector<ThreadIdentity>> threads = identities_of(::getpid());
  done.release();
  other.join();
  REQUIRE(threads);
  REQUIRE(threads->size() >= 2);
  auto odd = std::ranges::find_if(*threads, [](const auto &t) { return t.gids[1] == 12345; });
  REQUIRE(odd != threads->end());
  CHECK(difference(*odd, {odd->uids[0], odd->gids[0], odd->groups}) ==
        fmt::format("thread {} of process {} has gid 12345 instead of {}", odd->thread, ::getpid(),
                    odd->gids[0]));
}

TEST_CASE("a main thread that has ended does not count, its threads do" *
          doctest::skip(::geteuid() != 0)) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  pid_t child = ::fork();
  if (child == 0) {
    std::thread([&] {
      ::syscall(SYS_setresgid, 12345, 12345, 12345);
      while (proc::read_status(::getpid()).value().state != 'Z') ::usleep(1000);
      (void)!::write(ends[1], "x", 1);
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
  }
  char said;
  CHECK(::read(ends[0], &said, 1) == 1);
  Result<std::vector<ThreadIdentity>> threads = identities_of(child);
  ::kill(child, SIGKILL);  // before a check that ends the test
  REQUIRE(threads);
  // A sanitizer may have a thread of its own there.
  CHECK(std::ranges::find(*threads, child, &ThreadIdentity::thread) == threads->end());
  CHECK(std::ranges::any_of(*threads, [](const auto &t) { return t.gids[0] == 12345; }));
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  CHECK(identities_of(child).value().empty());
  ::waitpid(child, nullptr, 0);
  CHECK(identities_of(child).value().empty());
}

TEST_CASE("a status file without one of its fields, or with one twice, is not understood") {
  std::string text = file_text("/proc/self/status").value();
  REQUIRE(proc::parse_status(text));
  for (const char *name : {"State", "PPid", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff",
                           "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "NSpid"}) {
    size_t at = text.find(std::string("\n") + name + ":") + 1;
    REQUIRE(at != 0);
    std::string line = text.substr(at, text.find('\n', at) + 1 - at), without = text;
    CHECK_MESSAGE(!proc::parse_status(without.erase(at, line.size())), name);
    CHECK_MESSAGE(!proc::parse_status(text + line), name);
  }
  CHECK(!proc::parse_status(""));
}

TEST_CASE("a process that has ended is an error, and no exception") {
  pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  CHECK(!proc::read_status(child));
  CHECK(!proc::start_ticks_of(child));
  CHECK(!file_text(fmt::format("/proc/{}/limits", child)));
  CHECK(proc::threads_of(child).empty());
  CHECK(proc::namespace_inode(child, "user") == 0);
}
