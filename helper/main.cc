// SPDX-License-Identifier: Apache-2.0
//
// ckpt-helper: lets users without root checkpoint and restore their own programs. This process
// accepts connections; each request is served by a process of its own (serve.cc).
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "ckpt_config.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/private_criu.h"
#include "common/base/shortage.h"
#include "common/ipc/listener.h"
#include "common/ipc/unix_socket.h"
#include "helper/criu_arguments.h"
#include "helper/folder.h"
#include "helper/protocol.h"
#include "helper/serve.h"

namespace ckpt::helper {
namespace {

constexpr int kUsage = 125;

// Where the system's own is new enough, there is no other. A user's PATH does not choose.
std::string default_criu() {
  std::string own = private_criu();
  return own.empty() ? "/usr/sbin/criu" : own;
}

struct Options {
  std::string socket;  // "": systemd's
  std::string criu = default_criu();
  std::string folder = "/run/ckpt-helper";
  size_t per_user = 256, total = 1024;
  bool lazy = false;
};

constexpr const char *kHelp =
    R"(Usage: ckpt-helper [OPTIONS]

Lets users without root checkpoint and restore their own programs.

Options:
  -h, --help      print this help and exit
  --version       print the version and exit
  --socket=PATH   listen here (default: the socket that systemd passes)
  --criu=PATH     CRIU, which only root can change
                  (default: /opt/ckpt/criu/bin/criu, that of the package
                  ckpt-criu, or /usr/sbin/criu)
  --folder=PATH   for what lives as long as a request (default: /run/ckpt-helper)
  --per-user=N    requests and restored programs of one user at a time
                  (default: 256)
  --total=N       the same for all users (default: 1024)
  --lazy          let users restore lazily (ckpt-restore --lazy). This gives
                  them what vm.unprivileged_userfaultfd=0 keeps from them
)";

bool parse_count(const char *text, size_t &count) {
  char *end = nullptr;
  unsigned long n = std::strtoul(text, &end, 10);
  count = n;
  return *text && !*end && n > 0 && n <= 1'000'000;
}

// No value: go on. Otherwise the exit code.
std::optional<int> parse(int argc, char **argv, Options &o) {
  enum { Help = 'h', Version, Socket, Criu, Folder, PerUser, Total, Lazy };
  constexpr option kOptions[] = {{"help", 0, nullptr, Help},
                                 {"version", 0, nullptr, Version},
                                 {"socket", 1, nullptr, Socket},
                                 {"criu", 1, nullptr, Criu},
                                 {"folder", 1, nullptr, Folder},
                                 {"per-user", 1, nullptr, PerUser},
                                 {"total", 1, nullptr, Total},
                                 {"lazy", 0, nullptr, Lazy},
                                 {}};
  bool sound = true;
  for (int c; (c = ::getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case Help: std::fputs(kHelp, stdout); return 0;
      case Version: std::puts(CKPT_VERSION); return 0;
      case Socket: o.socket = optarg; break;
      case Criu: o.criu = optarg; break;
      case Folder: o.folder = optarg; break;
      case PerUser: sound = sound && parse_count(optarg, o.per_user); break;
      case Lazy: o.lazy = true; break;
      case Total: sound = sound && parse_count(optarg, o.total); break;
      default: sound = false;
    }
  if (sound && optind == argc) return std::nullopt;
  std::fputs("ckpt-helper: the arguments are wrong; see ckpt-helper --help\n", stderr);
  return kUsage;
}

// sd_listen_fds(3), without its library.
Result<UniqueFd> systemd_socket() {
  constexpr int kFirst = 3;
  const char *pid = std::getenv("LISTEN_PID"), *count = std::getenv("LISTEN_FDS");
  if (!pid || !count || std::atoi(pid) != ::getpid() || std::atoi(count) != 1)
    return fail_with_hint("there is no socket", "start ckpt-helper.socket, or pass --socket PATH");
  return UniqueFd(kFirst);
}

Result<UniqueFd> open_socket(const Options &o) {
  if (o.socket.empty()) return systemd_socket();
  ::unlink(o.socket.c_str());
  CKPT_TRY(UniqueFd listener, listen_unix(o.socket));
  if (::chmod(o.socket.c_str(), 0666) != 0) return fail_errno("cannot chmod {}", o.socket);
  return listener;
}

class Acceptor {
 public:
  Acceptor(std::unique_ptr<Listener> listener, const Options &o)
      : listener_(std::move(listener)),
        options_(o),
        service_{.criu = o.criu,
                 .folder = o.folder,
                 .capabilities = bit_of(CAP_CHECKPOINT_RESTORE),
                 .lazy = o.lazy} {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[noreturn]] void run() {
    for (;;) {
      pollfd fds[]{{signals_.get(), POLLIN, 0}, {listener_->fd(), POLLIN, 0}};
      int ready = ::poll(fds, 2, timeout());
      if (was_killed_) sweep();
      if (ready <= 0) continue;
      if (fds[0].revents) reap();
      if (fds[1].revents == 0) continue;
      Listener::Turn turn = listener_->turn(Clock::now());
      for (Listener::Connection &c : turn.spoke) accept(std::move(c));
    }
  }

 private:
  // What a killed worker has left goes when its stem has ended, too: soon, unless the program
  // lives.
  static constexpr int kQuickSweeps = 60, kQuickMs = 1000, kSlowMs = 60'000;

  int timeout() const { return !was_killed_ ? -1 : quick_sweeps_ > 0 ? kQuickMs : kSlowMs; }

  void sweep() {
    quick_sweeps_ = std::max(0, quick_sweeps_ - 1);
    remove_leftovers(options_.folder);
  }

  void reap() {
    signalfd_siginfo ignored;
    while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      workers_.erase(pid);
      was_killed_ = was_killed_ || WIFSIGNALED(status);
      if (WIFSIGNALED(status)) quick_sweeps_ = kQuickSweeps;
    }
  }

  // From now on its worker counts.
  void accept(Listener::Connection accepted) {
    listener_->left(accepted.id);
    UniqueFd connection = std::move(accepted.socket);
    Result<ucred> peer = peer_credentials(connection.get());
    if (!peer) return;
    if (!may_start(peer->uid))
      return refuse(connection.get(), {"ckpt-helper serves too many requests", "try again later"});
    pid_t worker = ::fork();
    if (worker == 0) {
      listener_.reset();
      signals_.reset();
      ::sigprocmask(SIG_SETMASK, &before_, nullptr);
      serve(std::move(connection), service_);
      ::_exit(0);
    }
    if (worker > 0) workers_[worker] = peer->uid;
  }

  // One user alone can have half of all workers, a second user half of the rest, and so on.
  bool may_start(uid_t uid) const {
    size_t theirs = 0;
    for (auto [pid, owner] : workers_) theirs += owner == uid;
    size_t free = options_.total - std::min(workers_.size(), options_.total);
    return theirs < std::min(free, options_.per_user);
  }

  std::unique_ptr<Listener> listener_;
  UniqueFd signals_;
  const Options &options_;
  Service service_;
  sigset_t before_;
  std::map<pid_t, uid_t> workers_;
  bool was_killed_ = false;  // a worker
  int quick_sweeps_ = 0;
};

// What the helper needs of root's capabilities (docs/HELPER.md has the table).
constexpr u64 kNeeded = bit_of(CAP_SETUID) | bit_of(CAP_SETGID) | bit_of(CAP_SETPCAP) |
                        bit_of(CAP_SYS_ADMIN) | bit_of(CAP_SYS_CHROOT) | bit_of(CAP_SYS_PTRACE) |
                        bit_of(CAP_CHECKPOINT_RESTORE) | bit_of(CAP_DAC_OVERRIDE);

Result<> start(const Options &o) {
  if (::geteuid() != 0) return fail("ckpt-helper must be started as root");
  if (u64 missing = kNeeded & ~own_capabilities())
    return fail("ckpt-helper lacks {}", names_of_capabilities(missing));
  CKPT_CHECK(check_owned_by_root(o.criu));
  CKPT_CHECK(prepare_folder(o.folder));
  CKPT_TRY(UniqueFd socket, open_socket(o));
  CKPT_TRY(std::unique_ptr<Listener> listener, Listener::create("ckpt-helper", {}));
  CKPT_CHECK(listener->listen(std::move(socket)));
  if (!keep_only(kNeeded, bit_of(CAP_DAC_OVERRIDE)))
    return fail_errno("cannot give up capabilities");
  Acceptor(std::move(listener), o).run();
}

}  // namespace
}  // namespace ckpt::helper

int main(int argc, char **argv) {
  using namespace ckpt;
  helper::Options options;
  if (std::optional<int> code = helper::parse(argc, argv, options)) return *code;
  log::set_name("ckpt-helper");
  ::signal(SIGPIPE, SIG_IGN);
  survive_file_size_limit();  // a caller's
  ::umask(022);
  Result<> done = helper::start(options);
  log::error(done.error());
  return 1;
}
