// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/command.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "common/base/io.h"
#include "common/base/shortage.h"
#include "common/base/unique_fd.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::tools {
namespace {

std::vector<int> g_ignored_in_children;

// Everything that the child needs, prepared before the fork: after a fork in a process with threads
// only async-signal-safe calls are allowed.
struct Prepared {
  std::vector<char *> argv;
  std::vector<std::string> environment_text;
  std::vector<char *> environment;
};

Prepared prepare(const Spawn &spec) {
  Prepared p;
  for (const std::string &a : spec.argv) p.argv.push_back(const_cast<char *>(a.c_str()));
  p.argv.push_back(nullptr);
  std::set<std::string_view> replaced(spec.without.begin(), spec.without.end());
  for (const auto &[name, value] : spec.environment) replaced.insert(name);
  for (char **e = environ; *e; e++) {
    std::string_view entry = *e;
    if (!replaced.contains(entry.substr(0, entry.find('='))))
      p.environment_text.emplace_back(entry);
  }
  for (const auto &[name, value] : spec.environment)
    p.environment_text.push_back(name + "=" + value);
  for (std::string &e : p.environment_text) p.environment.push_back(e.data());
  p.environment.push_back(nullptr);
  return p;
}

void redirect(int from, int to) {
  if (from < 0) return;
  if (from == to)
    ::fcntl(to, F_SETFD, 0);
  else
    ::dup2(from, to);
}

[[noreturn]] void become(const Spawn &spec, const Prepared &p, int report, pid_t parent) {
  if (spec.own_group) ::setpgid(0, 0);
  if (spec.die_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
  }
  redirect(spec.in, 0);
  redirect(spec.out, 1);
  redirect(spec.err, 2);
  for (int fd : spec.keep) ::fcntl(fd, F_SETFD, 0);
  for (int signal : g_ignored_in_children) ::signal(signal, SIG_IGN);
  if (spec.in_child) spec.in_child();
  sigset_t empty;
  ::sigemptyset(&empty);
  ::sigprocmask(SIG_SETMASK,
                spec.signal_mask ? static_cast<const sigset_t *>(spec.signal_mask) : &empty,
                nullptr);
  if (spec.folder.empty() || ::chdir(spec.folder.c_str()) == 0) {
    environ = const_cast<char **>(p.environment.data());
    spec.search_path ? ::execvp(p.argv[0], p.argv.data()) : ::execv(p.argv[0], p.argv.data());
  }
  int why = errno;
  if (::write(report, &why, sizeof why) < 0) { /* the parent has ended */
  }
  ::_exit(why == ENOENT ? 127 : 126);
}

// fork() takes no flags for namespaces, so this is the system call that fork() makes. What the C
// library does around it matters only to a child that does not call exec.
pid_t fork_into(int namespaces) {
  if (namespaces == 0) return ::fork();
  return static_cast<pid_t>(
      ::syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

std::string read_to_end(int fd, size_t most_bytes) {
  std::string all;
  char buf[65536];
  for (ssize_t n; all.size() <= most_bytes && (n = ::read(fd, buf, sizeof buf)) != 0;)
    if (n > 0)
      all.append(buf, static_cast<size_t>(n));
    else if (errno != EINTR)
      break;
  return all;
}

}  // namespace

void ignore_in_children(const std::vector<int> &signals) { g_ignored_in_children = signals; }

Result<pid_t> spawn(const Spawn &spec, int *error) {
  Prepared prepared = prepare(spec);
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  UniqueFd in(pipe_fds[0]), out(pipe_fds[1]);
  pid_t parent = ::getpid();
  pid_t child = fork_into(spec.new_namespaces);
  if (child < 0) return fail_errno("cannot fork");
  if (child == 0) become(spec, prepared, out.get(), parent);
  out.reset();
  int why = 0;
  if (!read_exactly(in.get(), &why, sizeof why)) return child;  // exec has closed the pipe
  ::waitpid(child, nullptr, 0);
  if (error) *error = why;
  errno = why;
  return fail_errno("cannot run {}", spec.argv[0]);
}

Failure become_program(std::vector<std::string> argv) {
  std::vector<char *> pointers;
  for (std::string &word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers[0], pointers.data());
  return fail_errno("cannot run {}", argv[0]);
}

Result<CommandResult> run_command(const std::vector<std::string> &argv, const std::string &input) {
  return run_command(Spawn{.argv = argv}, input, SIZE_MAX);
}

Result<CommandResult> run_command(Spawn spec, const std::string &input, size_t most_bytes) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  UniqueFd to_read(to[0]), to_write(to[1]);
  if (::pipe2(from, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  UniqueFd from_read(from[0]), from_write(from[1]);
  spec.in = to_read.get();
  spec.out = from_write.get();
  CKPT_TRY(pid_t child, spawn(spec));
  to_read.reset();
  from_write.reset();
  Result<std::thread> feeder = start_thread([&] {
    // The program may end without reading everything, which must not kill us by SIGPIPE.
    sigset_t pipe_signal;
    ::sigemptyset(&pipe_signal);
    ::sigaddset(&pipe_signal, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    if (auto r = write_all(to_write.get(), view(input)); !r) { /* the exit code tells more */
    }
    to_write.reset();
  });
  if (!feeder) to_write.reset();  // the program ends, as it reads an end of file
  CommandResult r;
  r.output = read_to_end(from_read.get(), most_bytes);
  r.is_cut = r.output.size() > most_bytes;
  from_read.reset();
  if (feeder) feeder->join();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!feeder) return Failure(std::move(feeder).error());
  r.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return r;
}

std::string output_in(int file, size_t max_bytes) {
  struct stat st {};
  if (::fstat(file, &st) != 0) return "";
  std::string text(std::min(static_cast<size_t>(st.st_size), max_bytes), '\0');
  Result<size_t> read = read_at(file, std::as_writable_bytes(std::span(text)), 0);
  text.resize(read.value_or(0));
  return text;
}

}  // namespace ckpt::tools
