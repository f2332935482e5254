// SPDX-License-Identifier: Apache-2.0
#include "helper/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/ipc/unix_socket.h"
#include "common/proc/identity.h"
#include "common/proc/status.h"
#include "helper/caller.h"
#include "helper/child.h"
#include "helper/criu_arguments.h"
#include "helper/folder.h"
#include "helper/made_namespaces.h"
#include "helper/process_namespace.h"
#include "helper/protocol.h"
#include "helper/stem.h"
#include "helper/streams.h"
#include "helper/userfaultfds.h"
#include "helper/vetting.h"

namespace ckpt::helper {
namespace {

constexpr unsigned kRequestSeconds = 20;  // a caller that sends too slowly is dropped (SIGALRM)

UniqueFd process_descriptor(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Checks that every thread of the program has the caller's rights alone. The kernel would not let
// CRIU trace any other (ptrace(2), "Ptrace access mode checking"), because CRIU runs as the caller
// without SYS_PTRACE. This check comes first, to give a clear message. It leaves out the groups: a
// login may have got others since the program has started, and a restore asks for them.
Result<> check_program(pid_t root, const Credentials &caller) {
  for (pid_t pid : proc::tree_of(root)) {
    CKPT_TRY(std::vector<ThreadIdentity> threads, identities_of(pid));
    for (const ThreadIdentity &t : threads)
      if (std::string why = difference(t, {caller.uid, caller.gid, t.groups}); !why.empty())
        return fail_with_hint("the program has not the rights of the caller alone: " + why,
                              "end that process first, or dump the program as root");
  }
  return {};
}

Result<> check_lazy(const Service &service) {
  if (service.lazy) return check_userfaultfds();
  return fail_with_hint("users may not restore lazily (--lazy) here",
                        "leave --lazy out, or ask the administrator: ckpt-helper(8) says what its "
                        "option --lazy gives to users");
}

class Serving {
 public:
  Serving(UniqueFd connection, const Service &service, Identity caller, std::optional<Limits> most)
      : connection_(std::move(connection)),
        service_(service),
        caller_(std::move(caller)),
        most_(most) {}

  Result<> dump(const Request &request) {
    CKPT_CHECK(check_program(request.root, caller_));
    CKPT_TRY(UniqueFd mounts, enter_namespace(request.root));
    CKPT_TRY(StreamFolder folder, StreamFolder::create(service_.folder, StreamFolder::For::Dump));
    CriuRun run = run_of(request, folder);
    if (!mounts) run.plugins = service_.plugins;
    CKPT_TRY(proc::Status root, proc::read_status(request.root));
    Child child = child_of(request, dump_arguments(run, root.pid_inside()));
    child.mount_namespace = mounts.get();
    CKPT_TRY(pid_t criu, start_criu(child, caller_, service_.capabilities));
    UniqueFd process = process_descriptor(criu);
    CKPT_TRY(UniqueFd streams,
             folder.accept(process.get(), [criu](pid_t pid) { return pid == criu; }));
    (void)send_streams(criu, std::move(streams));  // without its streams, CRIU ends
    int status = reap_with_children(criu);
    Event ended{Event::CriuEnded, status};
    return write_all(connection_.get(), view(&ended, sizeof ended));
  }

  Result<> say_whether_lazy() {
    CKPT_CHECK(check_lazy(service_));
    return send_message(connection_.get(), static_cast<u16>(Type::Lazy));
  }

  Result<> restore(Request request) {
    bool lazy = request.flags & kLazy;
    if (lazy) CKPT_CHECK(check_lazy(service_));
    CKPT_TRY(StreamFolder folder,
             StreamFolder::create(service_.folder, StreamFolder::For::Restore));
    CKPT_TRY(auto events, socket_pair());
    StemPlan plan{.criu = child_of(request, restore_arguments(run_of(request, folder))),
                  .surroundings = surroundings_of(request),
                  .lead_terminal = (request.flags & kTerminal) != 0,
                  .root = request.root,
                  .events = events.second.get(),
                  .most = most_};
    plan.criu.in = request.terminal.get();
    CKPT_TRY(pid_t stem, start_stem(plan, caller_, service_.capabilities));
    events.second.reset();
    // The readers of the program's output must see its end.
    request.inherited.clear();
    request.terminal.reset();
    CKPT_TRY(MadeNamespace made, MadeNamespace::remember(service_.folder, stem));
    CKPT_CHECK(connect_criu(folder, stem, request.log.get()));
    Userfaultfds userfaultfds(stem, caller_);
    forward(events.first.get(), lazy ? &userfaultfds : nullptr);
    ::waitpid(stem, nullptr, 0);
    return {};
  }

 private:
  // A program in a PID namespace is dumped from inside of it: later children of this process go
  // there. Returns the mount namespace that goes with it.
  Result<UniqueFd> enter_namespace(pid_t root) {
    if (proc::namespace_inode(root, "pid") == proc::namespace_inode(::getpid(), "pid"))
      return UniqueFd();
    CKPT_TRY(UniqueFd pids, open_namespace(root, "pid"));
    CKPT_TRY(UniqueFd mounts, open_namespace(root, "mnt"));
    if (!service_.for_root && !is_made_namespace(service_.folder, inode_of(pids), inode_of(mounts)))
      return fail_with_hint("the program is in a PID namespace that ckpt-helper has not made",
                            "dump it as root");
    if (::setns(pids.get(), CLONE_NEWPID) < 0)
      return fail_errno("cannot enter the program's PID namespace");
    return mounts;
  }

  CriuRun run_of(const Request &request, const StreamFolder &folder) const {
    CriuRun run{.criu = service_.criu,
                .folder = folder.path(),
                .log = "-",
                .errors_only = (request.flags & kErrorsOnly) != 0,
                .unprivileged = true};
    for (const Inherited &i : request.inherited) run.inherited.emplace_back(i.fd.get(), i.inode);
    return run;
  }

  static Child child_of(const Request &request, std::vector<std::string> argv) {
    std::string folder = "/";
    Child child{.argv = std::move(argv), .folder = folder, .out = request.log.get()};
    for (const Inherited &i : request.inherited) child.inherited.push_back(i.fd.get());
    return child;
  }

  NewNamespace surroundings_of(const Request &request) const {
    return {.own_terminals = (request.flags & kOwnTerminals) != 0,
            .last_pid = request.last_pid,
            .seen_from = request.seen_from,
            .seen_as = request.seen_as,
            .owner = caller_.uid};
  }

  // The caller gets one end of a connection; between it and CRIU stands the vetting of
  // capabilities.
  Result<> connect_criu(StreamFolder &folder, pid_t stem, int log) {
    UniqueFd process = process_descriptor(stem);
    CKPT_TRY(UniqueFd criu, folder.accept(process.get(), [stem](pid_t pid) {
      Result<proc::Status> s = proc::read_status(pid);
      return s && s->parent == stem;
    }));
    if (!criu) return send_streams(stem, {});
    CKPT_TRY(auto ends, socket_pair());
    CKPT_CHECK(start_vetting(std::move(criu), std::move(ends.second), caller_, log));
    return send_streams(stem, std::move(ends.first));
  }

  Result<> send_streams(pid_t pid, UniqueFd streams) {
    std::vector<int> fds;
    if (streams) fds.push_back(streams.get());
    return send_message(connection_.get(), static_cast<u16>(Type::Streams), view(&pid, sizeof pid),
                        fds);
  }

  // Copies events to the caller, and what it says to the stem, until the stem has ended.
  void forward(int stem, Userfaultfds *userfaultfds) {
    pollfd fds[]{{stem, POLLIN, 0}, {connection_.get(), POLLIN, 0}};
    for (;;) {
      if (::poll(fds, 2, -1) < 0) continue;
      if (fds[0].revents) {
        Event event;
        if (!read_exactly(stem, &event, sizeof event)) return;
        (void)write_all(connection_.get(), view(&event, sizeof event));
        if (event.kind == Event::Started && userfaultfds) give_userfaultfds(*userfaultfds);
      } else if (fds[1].revents && !pass_on(stem)) {
        ::shutdown(stem, SHUT_WR);
        fds[1].fd = -1;
      }
    }
  }

  // False: the caller has hung up.
  bool pass_on(int stem) {
    char buffer[256];
    ssize_t n = ::read(connection_.get(), buffer, sizeof buffer);
    if (n > 0) (void)write_all(stem, view(buffer, static_cast<size_t>(n)));
    return n > 0;
  }

  // CRIU has ended, and the program is still stopped. A hang-up is seen by the next read, too.
  void give_userfaultfds(Userfaultfds &userfaultfds) {
    constexpr size_t kMaxBytes = sizeof(i32);
    for (;;) {
      auto frame = receive_message(connection_.get(), kMaxBytes);
      if (!frame || !*frame || static_cast<Type>((*frame)->type) != Type::Userfaultfd) return;
      Result<UniqueFd> made = userfaultfds.make((*frame)->reader().get<i32>());
      if (made)
        (void)send_message(connection_.get(), static_cast<u16>(Type::Userfaultfd), {},
                           {{made->get()}});
      else
        refuse(connection_.get(), made.error());
    }
  }

  UniqueFd connection_;
  const Service &service_;
  Identity caller_;
  std::optional<Limits> most_;  // the caller's
};

Result<> serve_request(int connection, const Service &service) {
  // What root's tool does first may take longer.
  if (!service.for_root) ::alarm(kRequestSeconds);
  CKPT_TRY(Request request, receive_request(connection));
  ::alarm(0);
  Identity identity;
  std::optional<Limits> limits;
  if (service.for_root) {
    identity = *service.for_root;
  } else {
    CKPT_TRY(Caller caller, Caller::of(connection));
    if (caller.identity().uid == 0) return fail("root needs no helper");
    CKPT_TRY(limits, caller.join());
    identity = caller.identity();
  }
  if (yama_restricts_ptrace() && !(service.capabilities & bit_of(CAP_SYS_PTRACE)))
    return fail_with_hint("kernel.yama.ptrace_scope does not let CRIU trace the program",
                          "sysctl kernel.yama.ptrace_scope=0, or run this command as root");
  Serving serving(UniqueFd(::dup(connection)), service, std::move(identity), limits);
  switch (request.type) {
    case Type::Dump: return serving.dump(request);
    case Type::Lazy: return serving.say_whether_lazy();
    default: return serving.restore(std::move(request));
  }
}

}  // namespace

void serve(UniqueFd connection, const Service &service) {
  // The caller's limits may be so low that there is no memory.
  Result<> done = guarded([&] { return serve_request(connection.get(), service); });
  if (done) return;
  log::info("refused: {}", done.error().text());
  refuse(connection.get(), done.error());
}

int serve_starter(const char *const *arguments) {
  UniqueFd connection(std::atoi(arguments[0]));
  ::fcntl(connection.get(), F_SETFD, FD_CLOEXEC);
  Result<Identity> identity = identity_from(arguments[1]);
  if (!identity) return 2;
  Service service{.criu = arguments[3],
                  .folder = arguments[4],
                  .capabilities = std::strtoull(arguments[2], nullptr, 16),
                  .lazy = true,
                  .for_root = &*identity};
  if (Result<> ready = prepare_folder(service.folder); !ready) {
    refuse(connection.get(), ready.error());
    return 1;
  }
  serve(std::move(connection), service);
  return 0;
}

}  // namespace ckpt::helper
