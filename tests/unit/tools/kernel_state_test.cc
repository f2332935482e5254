// SPDX-License-Identifier: Apache-2.0
//
// The state that CRIU drops, read from and set in descriptors and processes of this test.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "common/base/words.h"
#include "common/proc/file.h"
#include "common/proc/maps.h"
#include "common/proc/remote_call.h"
#include "common/proc/status.h"
#include "tests/unit/common/tcp_pair.h"
#include "tools/net/socket_options.h"
#include "tools/proc/policies.h"
#include "tools/proc/process.h"
#include "tools/proc/watches.h"
#include "tools/restore/lost_events.h"

namespace ckpt::test {
using namespace tools;
namespace {

// Stopped by a signal.
class StoppedChild {
 public:
  StoppedChild() {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGTRAP, SIG_IGN);
      ::raise(SIGSTOP);
      for (;;) ::pause();
    }
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, WUNTRACED) == pid_);
  }
  ~StoppedChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST_CASE("a stopped process makes system calls, and is stopped where it was") {
  StoppedChild child;
  auto registers = [&] {
    std::ifstream in(fmt::format("/proc/{}/syscall", child.pid()));
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string before = registers();
  {
    Result<proc::RemoteCalls> calls = proc::RemoteCalls::in(child.pid(), child.pid());
    if (!calls) return;  // ptrace(2) is not allowed here
    CHECK(*calls->call(SYS_getpid, {}) == child.pid());
    CHECK(*calls->call(SYS_close, {static_cast<u64>(-1)}) == -EBADF);
    std::string name = "named";
    Result<u64> at = calls->put(view(name.c_str(), name.size() + 1));
    REQUIRE(at);
    CHECK(*calls->call(SYS_prctl, {PR_SET_NAME, *at}) == 0);
    CHECK(!calls->put(Bytes(4096)));
  }
  CHECK(thread_name(child.pid(), child.pid()) == "named");
  // A thread that is detached from goes back into the stop by itself (ptrace(2)).
  for (int i = 0; i < 1000 && read_process(child.pid())->state != 'T'; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(read_process(child.pid())->state == 'T');
  CHECK(registers() == before);
  std::string status = proc::text(child.pid(), "status");
  CHECK(leading_number(after_name(status, "SigIgn:"), u64{0}, 16) != 0);
}

// Code in the place of the first `syscall` of its vDSO.
void write_code(pid_t pid, std::string_view code) {
  UniqueFd memory = proc::open(pid, "mem", O_RDWR).value();
  for (const ProcMapping &m : proc::mappings_of(pid)) {
    if (m.path != "[vdso]") continue;
    std::string text(m.end - m.begin, '\0');
    REQUIRE(::pread(memory.get(), text.data(), text.size(), static_cast<off_t>(m.begin)) > 0);
    auto at = static_cast<off_t>(m.begin + text.find("\x0f\x05"));
    REQUIRE(::pwrite(memory.get(), code.data(), code.size(), at) > 0);
  }
}

TEST_CASE("a process whose code is changed meanwhile makes no other system call") {
  constexpr std::string_view kOtherCall("\xb8\x6e\x00\x00\x00\x0f\x05", 7);  // getppid
  StoppedChild child;
  Result<proc::RemoteCalls> calls = proc::RemoteCalls::in(child.pid(), child.pid());
  if (!calls) return;  // ptrace(2) is not allowed here
  CHECK(*calls->call(SYS_getpid, {}) == child.pid());
  write_code(child.pid(), kOtherCall);
  CHECK(!calls->call(SYS_getpid, {}));
}

TEST_CASE("a process with a seccomp filter makes no system calls for others") {
  pid_t pid = ::fork();
  if (pid == 0) {
    static char page[4096];
    ::mlock(page, sizeof page);
    ::prctl(PR_SET_SECCOMP, 1);  // SECCOMP_MODE_STRICT
    for (;;) {
    }
  }
  while (proc::read_status(pid)->seccomp == 0) ::usleep(1000);
  CHECK(!proc::RemoteCalls::in(pid, pid));
  REQUIRE(proc::read_status(pid)->locked_bytes > 0);
  CHECK(!locks_future_memory(pid));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

UniqueFd datagram() {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  REQUIRE(fd);
  return fd;
}

TEST_CASE("options and groups of a socket are set in another one") {
  UniqueFd from = datagram(), to = datagram();
  CHECK(SocketState::of(from.get(), ::getpid()).empty());
  int on = 1;
  REQUIRE(::setsockopt(from.get(), IPPROTO_IP, IP_RECVTTL, &on, sizeof on) == 0);
  ip_mreq_source group{};
  group.imr_interface.s_addr = htonl(INADDR_LOOPBACK);
  ::inet_pton(AF_INET, "239.3.2.2", &group.imr_multiaddr);
  ::inet_pton(AF_INET, "127.0.0.9", &group.imr_sourceaddr);
  bool joined =
      ::setsockopt(from.get(), IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &group, sizeof group) == 0;
  SocketState state = SocketState::of(from.get(), ::getpid());
  CHECK(state.numbers == std::map<std::string, i64>{{"IP_RECVTTL", 1}});
  REQUIRE(state.groups.size() == (joined ? 1 : 0));
  if (joined) CHECK(state.groups[0] == SocketGroup{"lo", "239.3.2.2", true, {"127.0.0.9"}});
  CHECK(state.apply_to(to.get()).empty());
  SocketState copy = SocketState::of(to.get(), ::getpid());
  CHECK(copy.numbers == state.numbers);
  CHECK(copy.groups == state.groups);
}

// The kernel gives an accepted connection the hop limit of a packet as IP_MULTICAST_TTL.
TEST_CASE("an accepted connection has no option that could not be set again") {
  auto [client, accepted] = tcp_pair();
  CHECK(SocketState::of(accepted.get(), ::getpid()).apply_to(client.get()).empty());
}

TEST_CASE("what cannot be set is named, and unknown names are ignored") {
  UniqueFd fd = datagram();
  SocketState state;
  state.numbers = {{"TCP_SYNCNT", 3}, {"IP_MTU_DISCOVER", 99}, {"NO_SUCH_OPTION", 1}};
  state.groups = {{"no-such-interface", "239.3.2.1", false, {}},
                  {"lo", "not an address", false, {}}};
  std::vector<std::string> failed = state.apply_to(fd.get());
  CHECK(failed.size() == 4);
  CHECK(std::ranges::find(failed, "IP_MTU_DISCOVER") != failed.end());
}

TEST_CASE("the next event of an inotify descriptor says that events were lost") {
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  REQUIRE(fd);
  REQUIRE(report_lost_events(fd.get()));
  CHECK(has_unread_events(::getpid(), fd.get()));
  inotify_event event{};
  CHECK(::read(fd.get(), &event, sizeof event) == sizeof event);
  CHECK(event.mask == IN_Q_OVERFLOW);
  CHECK(event.wd == -1);
  CHECK(::read(fd.get(), &event, sizeof event) < 0);
  CHECK(inotify_targets(::getpid(), fd.get()).empty());
}

TEST_CASE("the targets of an epoll descriptor are read") {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC)), target = datagram();
  epoll_event e{};
  REQUIRE(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, target.get(), &e) == 0);
  std::vector<EpollTarget> targets = epoll_targets(::getpid(), epoll.get());
  REQUIRE(targets.size() == 1);
  CHECK(targets[0].fd == target.get());
  CHECK(targets[0].occurrence == 0);
}

}  // namespace
}  // namespace ckpt::test
