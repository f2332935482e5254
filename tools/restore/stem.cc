// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/stem.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "common/base/test_points.h"
#include "common/ipc/unix_socket.h"
#include "helper/namespace.h"
#include "tools/command_line.h"
#include "tools/criu/rights.h"
#include "tools/proc/command.h"
#include "tools/proc/process.h"
#include "tools/restore/ipc_limits.h"
#include "tools/session/isolation.h"
#include "tools/session/process_tree.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr const char *kPidFile = "root.pid";

json to_json(const StemOptions &o, int events) {
  return {{"criu", o.criu},
          {"folder", o.folder},
          {"terminal", o.terminal},
          {"inherited", o.inherited},
          {"own_terminal", o.own_terminal},
          {"new_namespace", o.new_namespace},
          {"own_terminals", o.own_terminals},
          {"last_pid", o.last_pid},
          {"bind_from", o.bind_from},
          {"bind_to", o.bind_to},
          {"leave_stopped", o.leave_stopped},
          {"isolated", o.isolated},
          {"keep_capabilities", o.keep_capabilities},
          {"events", events}};
}

StemOptions from_json(const json &j) {
  return {j["criu"],
          j["folder"],
          j["terminal"],
          j["inherited"],
          j["own_terminal"],
          j["new_namespace"],
          j["own_terminals"],
          j["last_pid"],
          j["bind_from"],
          j["bind_to"],
          j["leave_stopped"],
          j["isolated"],
          j["keep_capabilities"]};
}

class StemProcess {
 public:
  StemProcess(StemOptions o, int events) : o_(std::move(o)), events_(events) {}

  int run() {
    // Signals to the process group or from the terminal are meant for the program.
    ignore_signals();
    if (Result<> r = enter_namespace_and_session(); !r) return fail_with_code(1, r.error());
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    // CRIU makes the program a child of this process. The keeper reports CRIU's error.
    Result<pid_t> root = restore();
    if (!root) return 1;
    close_descriptors();
    send(StemEvent::Started, *root);
    // The program stays stopped, and so cannot end, until the keeper has found its root.
    char acknowledgement;
    if (Result<> r = read_exactly(events_, &acknowledgement, 1); !r) {
      kill_tree(*root);  // the keeper was killed, so the copy cannot get its devices
      return 1;
    }
    continue_tree(*root, o_.leave_stopped);
    test_point("restore-continued");
    send(StemEvent::Continued, 0);
    return watch(*root);
  }

 private:
  void send(StemEvent::Kind kind, int value) {
    StemEvent e{kind, value};
    (void)write_all(events_, view(&e, sizeof e));
  }

  void ignore_signals() {
    for (int s : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGTTIN,
                  SIGTTOU, SIGPIPE})
      ::signal(s, SIG_IGN);
  }

  Result<> enter_namespace_and_session() {
    if (o_.new_namespace) CKPT_CHECK(set_up_namespace());
    if (o_.own_terminal || o_.new_namespace || session_is_outside()) CKPT_CHECK(lead_session());
    return {};
  }

  // This process is the first of the namespace already.
  Result<> set_up_namespace() {
    return helper::set_up_namespace({.own_terminals = o_.own_terminals,
                                     .last_pid = o_.last_pid,
                                     .seen_from = o_.bind_from,
                                     .seen_as = o_.bind_to,
                                     .owner = ::geteuid()});
  }

  Result<> lead_session() {
    if (::setsid() < 0 && ::getsid(0) != ::getpid()) return fail_errno("cannot create a session");
    if (o_.own_terminal && ::ioctl(o_.terminal, TIOCSCTTY, 0) < 0)
      return fail_errno("cannot take the pseudo-terminal as controlling terminal");
    return {};
  }

  Result<pid_t> restore() {
    IpcLimits limits;
    if (o_.isolated) CKPT_CHECK(limits.cover(o_.folder));
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    UniqueFd console(
        ::open((o_.folder + "/console").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    Spawn spec{.argv = o_.criu,
               .in = o_.terminal >= 0 ? o_.terminal : null.get(),
               .out = console.get(),
               .err = console.get(),
               .keep = o_.inherited,
               .folder = o_.folder,
               .in_child = keep_own_capabilities(
                   {.way = o_.keep_capabilities ? CriuRights::Way::Own : CriuRights::Way::Root})};
    spec.argv.insert(spec.argv.end(), {"--pidfile", o_.folder + "/" + kPidFile});
    CKPT_TRY(pid_t criu, spawn(spec));
    int status = 0;
    while (::waitpid(criu, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) end_children();
    send(StemEvent::CriuEnded, status);
    pid_t root = 0;
    std::ifstream(o_.folder + "/" + kPidFile) >> root;
    if (status != 0 || root <= 0) return fail("CRIU failed");
    return root;
  }

  // If CRIU was killed, its children are now ours: processes that it was restoring, and some with
  // which it tests the kernel (kerndat.c), of which one has stopped itself. They have CRIU's
  // connection to the image, which the keeper serves until it is closed.
  void end_children() {
    do {
      for (pid_t child : ProcessTable::read().children(::getpid())) ::kill(child, SIGKILL);
    } while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR);
  }

  // The readers of the program's output must see the end of file when the program closes it.
  void close_descriptors() {
    int null = ::open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2}) ::dup2(null, fd);
    for (int fd = 3; fd < 1024; fd++)
      if (fd != events_) ::close(fd);
  }

  // Reaps children and reports what happens to the root.
  int watch(pid_t root) {
    int status;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WUNTRACED)) > 0 || errno == EINTR;) {
      if (pid != root) continue;
      if (WIFSTOPPED(status)) {
        send(StemEvent::Stopped, WSTOPSIG(status));
        continue;
      }
      send(StemEvent::Ended, status);
      // The first process of a namespace stays until the last one has ended.
      if (!o_.new_namespace) return 0;
    }
    return 0;
  }

  StemOptions o_;
  int events_;
};

}  // namespace

Result<Stem> start_stem(const StemOptions &o) {
  CKPT_TRY(auto ends, socket_pair());
  Stem stem;
  stem.events = std::move(ends.first);
  UniqueFd events = std::move(ends.second);
  Spawn spec{.argv = {"/proc/self/exe", "--stem", to_json(o, events.get()).dump()},
             .keep = o.inherited,
             .in_child = keep_isolation()};
  spec.keep.push_back(events.get());
  if (o.terminal >= 0) spec.keep.push_back(o.terminal);
  if (o.new_namespace) spec.new_namespaces = CLONE_NEWPID | CLONE_NEWNS;
  CKPT_TRY(stem.pid, spawn(spec));
  return stem;
}

Result<StemEvent> next_event(int events) {
  StemEvent e{};
  CKPT_CHECK(read_exactly(events, &e, sizeof e));
  return e;
}

Result<> let_continue(int events) {
  CKPT_CHECK(write_all(events, view("k")));
  return next_event(events).transform([](auto) {});
}

int stem_main(const std::string &text) {
  json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return 2;
  // CRIU and the program must not inherit the socket, which came through exec open.
  StemOptions o = from_json(j);
  int events = j["events"];
  ::fcntl(events, F_SETFD, FD_CLOEXEC);
  return StemProcess(std::move(o), events).run();
}

}  // namespace ckpt::tools
