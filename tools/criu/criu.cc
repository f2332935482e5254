// SPDX-License-Identifier: Apache-2.0
#include "tools/criu/criu.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "common/base/private_criu.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

constexpr int kMinMajor = 4, kMinMinor = 2;
constexpr size_t kQuotedLines = 3;

std::string candidate() {
  if (const char *path = std::getenv("CKPT_CRIU"); path && *path) return path;
  std::string own = private_criu();
  return own.empty() ? "criu" : own;
}

// "Version: 4.2.1"
std::string version_in(const std::string &text) {
  size_t at = text.find("Version:");
  if (at == std::string::npos) return {};
  at = text.find_first_not_of(' ', at + 8);
  return text.substr(at, text.find_first_of("\r\n", at) - at);
}

bool new_enough(const std::string &version) {
  int major = 0, minor = 0;
  if (std::sscanf(version.c_str(), "%d.%d", &major, &minor) < 1) return false;
  return std::pair(major, minor) >= std::pair(kMinMajor, kMinMinor);
}

// A part of a message of CRIU, and what a user can do about the error.
struct Advice {
  const char *message_part;
  const char *hint;
};
constexpr Advice kAdvice[] = {
    {"External socket is used",
     "the program is connected to a process outside of it by a UNIX socket; close it first"},
    {"In-flight connection", "a connection was not accepted yet; run ckpt-dump again"},
    {"on an in-flight socket",
     "a UNIX connection was not accepted yet and has data already; run ckpt-dump again when the "
     "program has accepted it"},
    {"Can't link remap",
     "another checkpoint or restore may be using the name link_remap.N in that folder: run "
     "ckpt-dump again later. If a killed one has left the name behind, remove it, unless an image "
     "needs it"},
    {"Can't dump ghost file", "the program has a large unlinked file open; close it first"},
    {"No space left on device", "make room on the disk"},
    {"has bad size",
     "put the file back as it was, or use ckpt-restore --truncate-files or --append-files"},
    {"Timeout reached",
     "a process did not stop; if it is between vfork and exec, or waits for a disk, try again"},
    {"ctty inheritance detected",
     "a process has /dev/tty of a terminal open that another session controls; close it first"},
    {"kerndat_tcp_repair failed",
     "the loopback interface of the program's network namespace is down: run this in the "
     "namespace: ip link set lo up"},
    {"Can't bind inet socket",
     "another process has just taken a port of the program (ss -tunlp shows it): end that process, "
     "or run ckpt-restore again"},
    {"Can't fork for", "a PID of the program is in use; run ckpt-restore again"},
    {"Can't get rlimit",
     "this tool lacks CAP_SYS_RESOURCE, which it needs for programs of other users: run it as that "
     "user, or with this capability"},
};

// If root lacks a capability, as in a container, the hint "run as root" does not help.
const char *advice_on_rights() {
  return ::geteuid() == 0
             ? "root lacks a capability here; run outside of the container, or start it with the "
               "options that docs/PROCESSES.md lists under Containers"
             : "run as root";
}

std::string advice_for(const std::string &text) {
  for (const Advice &a : kAdvice)
    if (text.find(a.message_part) != std::string::npos) return a.hint;
  return text.find("Operation not permitted") != std::string::npos ? advice_on_rights() : "";
}

// The message after the source position, as in
// "(00.017984) 12: Error (criu/cr-restore.c:1230): Can't …".
std::string message_of(const std::string &line) {
  size_t at = line.find("): ", line.find("Error ("));
  return at == std::string::npos ? line : line.substr(at + 3);
}

// CRIU's helpers write to /dev/null. If it is a regular file, every program that reads /dev/null
// for empty input would get that output.
Result<> check_null_device() {
  struct stat s {};
  if (::stat("/dev/null", &s) == 0 && S_ISCHR(s.st_mode)) return {};
  return fail_with_hint("/dev/null is not a device",
                        "as root, run: rm -f /dev/null; mknod -m 666 /dev/null c 1 3");
}

}  // namespace

Result<Criu> find_criu() {
  CKPT_CHECK(check_null_device());
  const std::string hint = fmt::format(
      "install CRIU {}.{} or later (scripts/setup does), or set CKPT_CRIU", kMinMajor, kMinMinor);
  Criu c{candidate(), {}};
  Result<CommandResult> r = run_command({c.path, "--version"}, "");
  if (!r)
    return fail_with_hint("cannot run CRIU: " + r.error().what,
                          r.error().hint.empty() ? hint : r.error().hint);
  c.version = version_in(r->output);
  if (r->exit_code != 0 || c.version.empty())
    return fail_with_hint(
        fmt::format("{} --version failed with exit code {}", c.path, r->exit_code), hint);
  if (!new_enough(c.version))
    return fail_with_hint(fmt::format("{} is version {}, which is too old", c.path, c.version),
                          hint);
  return c;
}

std::string criu_found() {
  Result<Criu> criu = find_criu();
  return criu ? fmt::format("CRIU {} ({})", criu->version, criu->path)
              : "no CRIU: " + criu.error().what;
}

bool errors_only(u64 file_size_limit) {
  constexpr u64 kLargestLog = 1u << 30;
  return file_size_limit < kLargestLog;
}

Error criu_error(const std::string &log_path, const std::string &verb, int wait_status) {
  std::string errors;
  std::ifstream in(log_path);
  size_t lines = 0;
  for (std::string line; lines < kQuotedLines && std::getline(in, line);) {
    // CRIU logs this one in every run without CAP_SYS_RESOURCE, and it is harmless.
    if (line.find("Error (") == std::string::npos || line.find("rlimit: ") != std::string::npos)
      continue;
    errors += (lines++ ? "; " : "") + message_of(line);
  }
  if (errors.empty())
    errors = WIFSIGNALED(wait_status) ? fmt::format("killed by signal {}", WTERMSIG(wait_status))
                                      : fmt::format("exit code {}", WEXITSTATUS(wait_status));
  return {fmt::format("CRIU cannot {} the program: {}", verb, errors), advice_for(errors)};
}

}  // namespace ckpt::tools
