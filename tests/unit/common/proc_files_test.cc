// SPDX-License-Identifier: Apache-2.0
//
// The readers of /proc, each with texts of the manual pages and with this process itself.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/unique_fd.h"
#include "common/base/words.h"
#include "common/proc/cgroups.h"
#include "common/proc/file.h"
#include "common/proc/limits.h"
#include "common/proc/maps.h"
#include "common/proc/mounts.h"
#include "common/proc/stat.h"
#include "common/proc/status.h"
#include "common/proc/system_call.h"

using namespace ckpt;

namespace {

// The PID of a process that has ended and was reaped.
pid_t ended() {
  pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

}  // namespace

TEST_CASE("lines and words are parts of the text") {
  std::string text = "a  b\tc\n\nlast";
  CHECK(lines_of(text) == std::vector<std::string_view>{"a  b\tc", "", "last"});
  CHECK(words_of(std::string_view("  a  b\tc ")) == std::vector<std::string_view>{"a", "b", "c"});
  int n = 0;
  CHECK(parse_number("0x1f", n, 16));
  CHECK(n == 31);
  for (const char *word : {"", "x", "1x", "99999999999"}) CHECK(!parse_number(word, n));
  CHECK(leading_number(" \t17 kB", 0) == 17);
  CHECK(leading_number("kB", 5) == 5);
  CHECK(after_name("ab: 1\nb: 2\n", "b:") == " 2");
  CHECK(after_name("ab: 1\n", "b:") == "");
}

TEST_CASE("a name with blanks and brackets does not shift the fields of stat") {
  std::string rest = " S 5 6 7 34816 8 4194308 0 0 0 0 150 50 0 0 20 0 1 0 4711 0 0 0";
  for (std::string name : {"sh", "a b", ") Z 1", "((", ""}) {
    std::optional<proc::Stat> s = proc::parse_stat("12 (" + name + ")" + rest);
    REQUIRE(s);
    CHECK(s->command == name);
    CHECK(s->state == 'S');
    CHECK(s->parent == 5);
    CHECK(s->group == 6);
    CHECK(s->session == 7);
    CHECK(s->terminal == 34816);
    CHECK(s->ending);
    CHECK(s->used_ticks == 200);
    CHECK(s->start_ticks == 4711);
  }
  for (const char *text : {"", "12 (sh)", "12 (sh) S 1 2", "12 )sh( S",
                           "12 (sh) S x 6 7 0 8 0 0 0 0 0 1 1 0 0 20 0 1 0 9"})
    CHECK(!proc::parse_stat(text));
}

TEST_CASE("a process that is being reaped shows no group") {
  const std::string rest = " 0 -1 4 0 0 0 0 0 1 1 0 0 20 0 1 0 9";
  CHECK(proc::parse_stat("12 (sh) X 0 -1 -1" + rest)->is_reaped());
  CHECK(!proc::parse_stat("12 (sh) Z 5 6 7" + rest)->is_reaped());
}

TEST_CASE("a process that has ended has nothing, and is no exception") {
  pid_t gone = ended();
  CHECK(!proc::read_stat(gone));
  CHECK(!proc::read_status(gone));
  CHECK(!proc::cgroups_of(gone));
  CHECK(!proc::limits_of(gone));
  CHECK(!proc::system_call_of(gone, gone));
  CHECK(!proc::open(gone, "maps", O_RDONLY));
  CHECK(proc::mounts_of(gone).empty());
  CHECK(proc::mappings_of(gone).empty());
  CHECK(proc::text(gone, "environ").empty());
  CHECK(proc::link(gone, "exe").empty());
  CHECK(proc::parts(gone, "cmdline").empty());
  CHECK(proc::descriptors_of(gone).empty());
}

TEST_CASE("a process that ends between open and read has no text") {
  pid_t child = ::fork();
  if (child == 0) ::_exit(::pause());
  Result<UniqueFd> file = proc::open(child, "maps", O_RDONLY);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  REQUIRE(file);
  char byte;
  CHECK(::read(file->get(), &byte, 1) <= 0);  // ESRCH, for which a stream would throw
  CHECK(proc::text(child, "maps").empty());
}

TEST_CASE("this process reads itself") {
  CHECK(proc::read_stat(proc::kSelf)->state == 'R');
  CHECK(proc::read_stat(::getpid())->parent == ::getppid());
  CHECK(proc::link(proc::kSelf, "exe") == proc::link(::getpid(), "exe"));
  CHECK(!proc::parts(proc::kSelf, "cmdline").empty());
  UniqueFd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  CHECK(proc::link(proc::kSelf, fmt::format("fd/{}", zero.get())) == "/dev/zero");
  std::vector<int> own = proc::own_descriptors().value();
  CHECK(std::ranges::count(own, zero.get()) == 1);
  for (int fd : own) CHECK(::fcntl(fd, F_GETFD) >= 0);  // not the look's own
}

TEST_CASE("blocked signals are those of the line SigBlk, whatever other masks have") {
  pid_t child = ::fork();
  if (child == 0) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    ::_exit(::pause());
  }
  while (proc::read_status(child)->blocked_signals == 0) ::usleep(1000);
  u64 blocked = proc::read_status(child)->blocked_signals;
  CHECK((blocked & 1) == 1);
  CHECK((blocked >> (SIGKILL - 1) & 1) == 0);
  CHECK(proc::read_status(proc::kSelf)->blocked_signals != blocked);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a mount point is without the escapes of the kernel") {
  std::vector<proc::Mount> all = proc::parse_mounts(
      "36 35 98:0 /mnt1 /a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
      "37 36 0:30 / /sys/fs/cgroup/memory rw shared:3 unbindable - cgroup cgroup rw,cpu,memory\n"
      "38 36 0:31 / /plain\\x rw - tmpfs none rw\n"
      "39 36 0:31 / /short - tmpfs none rw\n"
      "nonsense\n\n40 36\n");
  REQUIRE(all.size() == 4);
  CHECK(all[0].id == 36);
  CHECK(all[0].point == "/a b\\c");
  CHECK(all[0].type == "ext3");
  CHECK(all[1].options == "rw,cpu,memory");
  CHECK(all[2].point == "/plain\\x");
  CHECK(all[3].point == "/short");
  std::vector<proc::Mount> own = proc::mounts_of(proc::kSelf);
  CHECK(std::ranges::any_of(
      own, [](const proc::Mount &m) { return m.point == "/proc" && m.type == "proc"; }));
}

TEST_CASE("groups of both versions are told apart, and controllers may share one") {
  std::vector<proc::Cgroup> all =
      proc::parse_cgroups("5:cpu,memory:/batch/a:b\n1:name=systemd:/x\n0::/user/y\nnonsense\n:\n");
  REQUIRE(all.size() == 3);
  CHECK(all[0].has("memory"));
  CHECK(all[0].has("cpu"));
  CHECK(!all[0].has("mem"));
  CHECK(all[0].path == "/batch/a:b");
  CHECK(!all[1].is_version_2());
  CHECK(all[2].is_version_2());
  CHECK(!all[2].has(""));
  CHECK(all[2].path == "/user/y");
}

TEST_CASE("the limits of a process are read as the kernel sets them") {
  Result<proc::Limits> all = proc::limits_of(::getpid());
  REQUIRE(all);
  for (int r = 0; r < RLIM_NLIMITS; r++) {
    rlimit own{};
    ::getrlimit(static_cast<__rlimit_resource>(r), &own);
    CHECK((*all)[static_cast<size_t>(r)].rlim_cur == own.rlim_cur);
    CHECK((*all)[static_cast<size_t>(r)].rlim_max == own.rlim_max);
  }
}

TEST_CASE("a file of limits that lacks one, or a value, is not understood") {
  std::string text = proc::text(proc::kSelf, "limits");
  REQUIRE(proc::parse_limits(text));
  CHECK(!proc::parse_limits(""));
  for (const char *name : {"Max cpu time", "Max open files", "Max realtime timeout"}) {
    std::string other = text;
    other.replace(other.find(name), 3, "Min");
    CHECK(!proc::parse_limits(other));
    other = text;
    CHECK(!proc::parse_limits(other.replace(other.find(name) + 26, 1, "x")));
  }
}

TEST_CASE("a thread is in a system call, waits outside of one, or runs") {
  std::optional<proc::SystemCall> c =
      proc::parse_system_call("7 0x7ffc1 0x2 0xffffffff 0x4 0x5 0x6 0x7ffd00 0x7f5c1e000010\n");
  REQUIRE(c);
  CHECK(c->number == 7);
  CHECK(c->arguments == std::array<u64, 6>{0x7ffc1, 2, 0xffffffff, 4, 5, 6});
  CHECK(c->program_counter == 0x7f5c1e000010);
  c = proc::parse_system_call("-1 0x7ffd00 0x7f5c1e000010\n");
  REQUIRE(c);
  CHECK(c->number == -1);
  CHECK(c->program_counter == 0x7f5c1e000010);
  for (const char *text : {"", "running\n", "7 0x1 0x2\n", "7 0x1 0x2 0x3 x 0x5 0x6 0x7 0x8\n"})
    CHECK(!proc::parse_system_call(text));
}
