// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/causes_for_user.h"

#include <sys/stat.h>

#include <set>
#include <string_view>

#include "common/proc/file.h"
#include "common/proc/maps.h"
#include "common/proc/status.h"
#include "tools/dump/running_files.h"
#include "tools/manifest/open_rights.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/watches.h"
#include "tools/session/isolation.h"

namespace ckpt::tools {
namespace {

constexpr const char *kRemedy =
    "close it first, or let root's ckpt-run start the program (setpriv)";

// CRIU links the file by its descriptor (linkat(2), AT_EMPTY_PATH), which needs
// CAP_DAC_READ_SEARCH.
bool has_other_name(pid_t pid, const Descriptor &d) {
  struct stat st {};
  return d.kind == Descriptor::Kind::File && d.deleted &&
         ::stat(proc::fd_path(pid, d.fd).c_str(), &st) == 0 && st.st_nlink > 0;
}

void add_files_with_other_name(const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes)
    for (const Descriptor &d : descriptors_of(p.pid))
      if (has_other_name(p.pid, d))
        reasons.push_back(
            fmt::format("{}: descriptor {} is the unlinked file {}, which has another name, and "
                        "CRIU finds it with the rights of root only: {}",
                        name_of(p), d.fd, d.target, kRemedy));
}

// Shared anonymous memory is read otherwise. What ckpt and its software device map is unmapped
// before.
std::string nameless_memory(const ProcMapping &m) {
  std::string_view name = m.path;
  if (!name.ends_with(proc::kUnlinked)) return {};
  name.remove_suffix(proc::kUnlinked.size());
  if (name.starts_with("/SYSV")) return "System V shared memory";
  if (name == "/dev/zero" || name.starts_with("/memfd:ckpt-") ||
      name.starts_with("/memfd:softcuda"))
    return {};
  if (name.starts_with("/memfd:"))
    return fmt::format("memory without a name (memfd_create(2): {})", name.substr(7));
  return fmt::format("the unlinked file {}", name);
}

// None: it has failed for another reason.
Reasons causes_of(const Error &of_criu, const Target &target, const CriuRights &rights) {
  Reasons reasons;
  if (!rights.without_root()) return reasons;
  CriuFiles files = files_as_criu_saves_them(target);
  ImageManifest none;
  check_open_rights(
      {.manifest = none, .criu = files, .prefix = target.files, .user = rights.for_files()},
      reasons);
  for (const char *of_link : {"trim failed", "Can't link remap"})
    if (of_criu.what.find(of_link) != std::string::npos) {
      add_files_with_other_name(target, reasons);
      break;
    }
  return reasons;
}

}  // namespace

// CRIU opens what is watched by its inode (open_by_handle_at(2)), which needs CAP_DAC_READ_SEARCH.
void check_watches_of_user(const Target &target, const CriuRights &rights, Closables &closables) {
  if (!rights.without_root()) return;
  for (const Process &p : target.processes)
    for (const Descriptor &d : descriptors_of(p.pid))
      if (d.target.ends_with("inotify") && !inotify_targets(p.pid, d.fd).empty())
        closables.push_back({p.pid, fmt::format("{}: descriptor {} is an inotify descriptor with "
                                                "watches, which CRIU finds with the rights of root "
                                                "only: {}",
                                                name_of(p), d.fd, kRemedy)});
}

void check_mappings_in_user_namespace(const Target &target, const CriuRights &rights,
                                      Reasons &reasons) {
  if (!is_isolated() && !rights.in_namespace) return;
  for (const Process &p : target.processes) {
    std::set<std::string> named;
    for (const ProcMapping &m : proc::mappings_of(p.pid))
      if (std::string what = nameless_memory(m); !what.empty() && named.insert(what).second)
        reasons.push_back(fmt::format(
            "{} has mapped {}, which CRIU cannot read in a user namespace: {}", name_of(p), what,
            rights.in_namespace ? "run the program outside of the rootless container"
                                : "start it without --isolate, and dump it by ckpt-helper or as "
                                  "root"));
  }
}

// PTRACE_O_SUSPEND_SECCOMP needs CAP_SYS_ADMIN.
void check_filters_of_user(const Target &target, const CriuRights &rights, Reasons &reasons) {
  constexpr int kFilter = 2;
  if (!rights.without_root()) return;
  for (const Process &p : target.processes)
    if (Result<proc::Status> s = proc::read_status(p.pid); s && s->seccomp == kFilter)
      reasons.push_back(fmt::format(
          "{} has a system call filter (seccomp), which CRIU suspends with the rights of root "
          "only: let root's ckpt-run start the program (setpriv)",
          name_of(p)));
}

Failure with_causes(const Error &of_criu, const Target &target, const CriuRights &rights) {
  Reasons reasons = causes_of(of_criu, target, rights);
  if (reasons.empty()) return Failure(of_criu);
  return fail_with_hint(
      fmt::format("the program cannot be checkpointed with the rights of its user:{}",
                  as_list(reasons)),
      "the program keeps running");
}

}  // namespace ckpt::tools
