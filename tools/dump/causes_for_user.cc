// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/causes_for_user.h"

#include <sys/stat.h>

#include "tools/dump/running_files.h"
#include "tools/manifest/open_rights.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/watches.h"

namespace ckpt::tools {
namespace {

// CRIU opens what is watched by its inode (open_by_handle_at(2)), which needs CAP_DAC_READ_SEARCH.
std::string watches(pid_t pid, const Descriptor &d) {
  bool is_inotify = d.target == "anon_inode:inotify" || d.target == "inotify";
  if (!is_inotify || inotify_targets(pid, d.fd).empty()) return {};
  return "an inotify descriptor with watches, which CRIU finds with the rights of root only";
}

// CRIU links the file by its descriptor (linkat(2), AT_EMPTY_PATH), which needs the same.
std::string has_other_name(pid_t pid, const Descriptor &d) {
  struct stat st {};
  if (d.kind != Descriptor::Kind::File || !d.deleted ||
      ::stat(fmt::format("/proc/{}/fd/{}", pid, d.fd).c_str(), &st) != 0 || st.st_nlink == 0)
    return {};
  return fmt::format(
      "the unlinked file {}, which has another name, and CRIU finds it with the rights of root "
      "only",
      d.target);
}

struct Cause {
  const char *of_criu;  // in its message
  std::string (*what)(pid_t pid, const Descriptor &d);
};
constexpr Cause kCauses[] = {{"Can't dump that handle", watches},
                             {"trim failed", has_other_name},
                             {"Can't link remap", has_other_name}};

void add_causes(const Cause &cause, const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes)
    for (const Descriptor &d : descriptors_of(p.pid))
      if (std::string what = cause.what(p.pid, d); !what.empty())
        reasons.push_back(
            fmt::format("{}: descriptor {} is {}: close it first, or let root's ckpt-run start the "
                        "program (setpriv)",
                        name_of(p), d.fd, what));
}

// PTRACE_O_SUSPEND_SECCOMP needs CAP_SYS_ADMIN.
void add_filters(const Target &target, Reasons &reasons) {
  constexpr u64 kFilter = 2;
  for (const Process &p : target.processes)
    if (status_field(p.pid, "Seccomp") == kFilter)
      reasons.push_back(fmt::format(
          "{} has a system call filter (seccomp), which CRIU suspends with the rights of "
          "root only: let root's ckpt-run start the program (setpriv)",
          name_of(p)));
}

}  // namespace

Reasons causes_for_user(const Error &of_criu, const Target &target, const CriuRights &rights) {
  Reasons reasons;
  if (!rights.unprivileged()) return reasons;
  CriuFiles files = files_as_criu_saves_them(target);
  ImageManifest none;
  check_open_rights(
      {.manifest = none, .criu = files, .prefix = target.files, .user = rights.for_files()},
      reasons);
  if (of_criu.what.find("suspending seccomp failed") != std::string::npos)
    add_filters(target, reasons);
  for (const Cause &cause : kCauses)
    if (of_criu.what.find(cause.of_criu) != std::string::npos) add_causes(cause, target, reasons);
  return reasons;
}

}  // namespace ckpt::tools
