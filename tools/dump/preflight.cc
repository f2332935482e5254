// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/preflight.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "agent/protocol.h"
#include "common/base/clock.h"
#include "common/base/driver_files.h"
#include "common/base/program.h"
#include "common/base/units.h"
#include "common/managed/messages.h"
#include "common/proc/file.h"
#include "helper/criu_arguments.h"
#include "tools/dump/fabric.h"
#include "tools/dump/unix_sockets.h"
#include "tools/dump/unsupported.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/name_services.h"
#include "tools/proc/process_root.h"
#include "tools/session/isolation.h"
#include "tools/session/namespace_root.h"
#include "tools/session/process_tree.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// An image takes between 1/200 (zeros) and all (noise) of the program's resident memory. Less free
// space than this lower bound is never enough.
constexpr u64 kMinFreeBytes = 256u << 10;
constexpr u64 kBestRatio = 200;
constexpr std::chrono::milliseconds kAgentStart{200};
constexpr long kMessageQueues = 0x19800202;  // MQUEUE_MAGIC of ipc/mqueue.c

bool starts_with_any(const std::string &s, std::initializer_list<const char *> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char *x) { return s.starts_with(x); });
}

// A program reaches a software device through a socket instead of a device file.
bool is_driver_socket(const std::string &path) {
  return fs::path(path).filename().string().starts_with("softcuda-");
}

// CRIU reopens these character devices by name, as they have no state: memory devices (major 1),
// /dev/tty and ptmx (major 5).
bool criu_can_reopen(const Descriptor &d) { return major(d.rdev) == 1 || major(d.rdev) == 5; }

// The kinds that CRIU restores.
bool is_known_anonymous(const std::string &target) {
  return target == "inotify" || target == "anon_inode:inotify" ||
         starts_with_any(target,
                         {"anon_inode:[eventfd]", "anon_inode:[eventpoll]", "anon_inode:[signalfd]",
                          "anon_inode:[timerfd]", "anon_inode:[fanotify]", "anon_inode:[pidfd]"});
}

std::string refused_detail(const Descriptor &d) {
  if (d.semaphore)
    return "an eventfd in semaphore mode, which CRIU would restore without that mode";
  if (d.file_system == kMessageQueues) return "a POSIX message queue, which CRIU cannot checkpoint";
  return {};
}

// A driver opens descriptors, too, which its agent removes. So in a process with an agent, only
// kinds that no driver opens are reported.
std::string refused_anonymous(const Descriptor &d, bool has_agent) {
  if (std::string detail = has_agent ? "" : refused_detail(d); !detail.empty())
    return detail + ": close it first";
  bool refused = d.target.starts_with("anon_inode:") && !is_known_anonymous(d.target);
  if (has_agent)
    refused = starts_with_any(
        d.target, {"anon_inode:[io_uring]", "anon_inode:[userfaultfd]", "anon_inode:[perf_event]",
                   "anon_inode:bpf", "anon_inode:[bpf", "anon_inode:kvm"});
  if (!refused) return {};
  return d.target.substr(d.target.find(':') + 1) + ", which CRIU cannot checkpoint: close it first";
}

std::string refused_descriptor(const Process &p, const Descriptor &d, bool has_agent) {
  std::string what = fmt::format("{}: descriptor {} is ", name_of(p), d.fd);
  using Kind = Descriptor::Kind;
  if (std::string why = refused_anonymous(d, has_agent); !why.empty()) return what + why;
  if (d.kind == Kind::BlockDevice || (d.kind == Kind::CharDevice && !criu_can_reopen(d) &&
                                      !is_device_file(d.target) && fabric_of(d.target).empty()))
    return what + "the device " + d.target + ", which cannot be checkpointed: close it first";
  if (d.kind == Kind::File && d.deleted && d.size > helper::kMaxUnlinkedBytes &&
      !d.target.starts_with("/memfd:"))
    return what +
           fmt::format(
               "an unlinked file of {} ({}), which is too large: close it, or give it a name",
               mebibytes_needed(d.size), d.target);
  if (d.kind == Kind::Pipe && (d.flags & O_DIRECT))
    return what + "a pipe in packet mode (O_DIRECT), which CRIU cannot checkpoint: close it first";
  return {};
}

// CRIU dumps a program whose processes share their PID and time namespaces with its root, and the
// others with the root's parent (keeper or stem), whose namespaces CRIU enters (host_side.cc). It
// dumps a mount namespace, too, but restores only those that were set up for it.
std::string refused_namespace(const Process &p, const Target &target) {
  const Process &root = target.processes.front();
  struct Kind {
    const char *name, *text;
    pid_t outside;
  };
  // The namespaces of ckpt-helper's stem cannot be seen; it runs in those that it has made.
  pid_t above = target.helper_stem ? ::getpid() : root.parent;
  pid_t beside = target.helper_stem ? root.pid : root.parent;
  for (Kind k :
       {Kind{"user", "user", above}, Kind{"pid", "PID", root.pid}, Kind{"time", "time", root.pid},
        Kind{"mnt", "mount", beside}, Kind{"cgroup", "cgroup", beside}})
    if (u64 own = namespace_of(p.pid, k.name); own && own != namespace_of(k.outside, k.name))
      return fmt::format("{} lives in a {} namespace of its own, which CRIU cannot restore: {}",
                         name_of(p), k.text,
                         k.text == std::string("user")
                             ? "run it without that namespace"
                             : "start ckpt-run and ckpt-dump inside of it");
  return {};
}

bool has_secret_memory(pid_t pid) {
  auto is_secret = [](const std::string &path) { return path.starts_with("/secretmem"); };
  return std::ranges::any_of(mappings_of(pid), is_secret, &ProcMapping::path) ||
         std::ranges::any_of(descriptors_of(pid), is_secret, &Descriptor::target);
}

// The sockets of this tool, the keeper and the proxies. The agents close their ends when they
// detach.
std::set<u64> own_sockets(const Target &target) {
  std::set<u64> inodes;
  std::set<pid_t> program;
  for (const Process &p : target.processes) program.insert(p.pid);
  std::vector<pid_t> ours{::getpid(), target.keeper};
  for (pid_t child : ProcessTable::read().children(target.keeper))
    if (!program.contains(child)) ours.push_back(child);
  for (pid_t pid : ours)
    for (const Descriptor &d : descriptors_of(pid))
      if (d.kind == Descriptor::Kind::Socket) inodes.insert(d.inode);
  return inodes;
}

// The device files that a process has, and whose they are.
struct DeviceUse {
  std::string mapped, open;         // one of each; empty: none
  bool nvml = false, cuda = false;  // libraries that it has loaded

  explicit DeviceUse(pid_t pid) {
    for (const ProcMapping &m : mappings_of(pid)) {
      if (mapped.empty() && is_device_file(m.path)) mapped = m.path;
      nvml = nvml || is_nvml_file(m.path);
      cuda = cuda || is_cuda_driver_file(m.path);
    }
    for (const Descriptor &d : descriptors_of(pid))
      if (open.empty() && is_device_file(d.target)) open = d.target;
  }
  // CUDA's driver maps devices, too. Where an agent answers for that driver, it is asked.
  bool only_nvml(bool has_agent) const {
    return nvml && mapped.empty() && !open.empty() && !(cuda && has_agent);
  }
};

std::string refused_driver(const Process &p) {
  DeviceUse use(p.pid);
  if (use.only_nvml(false)) return {};  // check_nvml() reports it
  const char *why =
      "it uses this driver without ckpt. Let it load ckpt's driver: do not link it statically, and "
      "do not give it the path of another driver";
  if (!use.mapped.empty()) return fmt::format("{} has {} mapped: {}", name_of(p), use.mapped, why);
  if (!use.open.empty()) return fmt::format("{} has {} open: {}", name_of(p), use.open, why);
  return {};
}

// It has the agent's socket, but not the agent's thread. The thread starts after its socket, on a
// busy machine much later.
bool only_inherits_agent(const Process &p, const std::string &socket) {
  if (has_made(p, socket)) return false;
  auto end = Clock::now() + kAgentStart;
  while (!runs_agent(p.pid))
    if (Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    else
      return true;
  return false;
}

}  // namespace

void check_destination(const Target &target, const std::string &image, bool overwrite,
                       Reasons &reasons) {
  std::error_code ec;
  if (fs::exists(image, ec) && !overwrite)
    reasons.push_back(
        fmt::format("{} exists already: choose another name, or add --overwrite", image));
  fs::path folder = fs::absolute(image).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  folder = folder.parent_path();
  if (!fs::is_directory(folder, ec))
    return reasons.push_back(
        fmt::format("there is no folder {}: create it, or choose another one", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0)
    return reasons.push_back(
        fmt::format("the folder {} is not writable: choose another one", folder.string()));
  u64 resident = 0;
  for (const Process &p : target.processes) resident += p.resident_bytes;
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  u64 free_bytes = disk.f_bavail * disk.f_frsize;
  if (free_bytes < std::max(kMinFreeBytes, resident / kBestRatio))
    reasons.push_back(
        fmt::format("{} KiB free in {} are not enough for a program of {}: make room there",
                    free_bytes >> 10, folder.string(), mebibytes_needed(resident)));
}

void check_processes(const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes) {
    if (target.has_agent(p.pid) && only_inherits_agent(p, target.agent_socket(p.pid)))
      reasons.push_back(fmt::format(
          "{} was forked by _Fork() or clone() from a process with a device, which ckpt "
          "does not notice, so it has what belongs to that device: use fork(), vfork() "
          "or posix_spawn() instead",
          name_of(p)));
    if (p.tracer)
      reasons.push_back(fmt::format("{} is traced by process {}: detach the debugger first",
                                    name_of(p), p.tracer));
    if (p.state == 'T' && target.has_agent(p.pid))
      reasons.push_back(
          fmt::format("{} is stopped: continue it first (kill -CONT {})", name_of(p), p.pid));
    if (std::string why = refused_namespace(p, target); !why.empty())
      reasons.push_back(std::move(why));
    if (target.has_agent(p.pid) && !have_same_root(p.pid, target.viewer))
      reasons.push_back(
          fmt::format("{} uses a device and has changed its root folder (chroot): there a restored "
                      "copy could not reach the devices",
                      name_of(p)));
    if (has_secret_memory(p.pid))
      reasons.push_back(
          fmt::format("{} has secret memory (memfd_secret), which only the process itself can "
                      "read: it cannot be checkpointed",
                      name_of(p)));
    if (is_own_helper(p.pid))
      reasons.push_back(
          fmt::format("{} is a ckpt tool inside of the program: checkpoint that tool's program "
                      "instead; a program "
                      "that checkpoints itself calls ckpt_checkpoint(), see ckpt(3)",
                      name_of(p)));
  }
  if (Result<Process> keeper = read_process(target.keeper); keeper && keeper->state == 'T')
    reasons.push_back(
        fmt::format("the job is stopped: continue it first (fg, or kill -CONT {})", target.keeper));
  for (pid_t pid : target.escaped)
    if (Result<Process> p = read_process(pid))
      reasons.push_back(
          fmt::format("{} was started by the program and has left its process tree (a daemon?), "
                      "so it would not be in the image: end it first",
                      name_of(*p)));
}

// CRIU runs with this tool's rights and in the program's mount namespace. The path must lead to our
// CRIU there, not to another file in a container.
void check_container(const Target &target, const Criu &criu, Reasons &reasons) {
  u64 user = namespace_of(target.keeper, "user");
  if (user == namespace_of(::getpid(), "user") && user && user != kFirstUserNamespace &&
      !is_isolated() && !is_namespace_root())
    return reasons.push_back(
        "the program runs in a user namespace (as Apptainer and unshare --user make it), and only "
        "root of that namespace has the rights that a dump and a restore need: be its root "
        "(unshare "
        "--map-root-user), or run the program outside of it");
  if (user && user != namespace_of(::getpid(), "user") && is_isolated(target.keeper))
    return reasons.push_back(
        fmt::format("the program is isolated (ckpt-run --isolate), and only its user can work on "
                    "it: run this as that user (runuser -u {} -- ckpt-dump …)",
                    user_name(target.processes.front().uid)));
  if (user && user != namespace_of(::getpid(), "user"))
    return reasons.push_back(
        "the program runs in another user namespace than ckpt-dump (a rootless container, "
        "Apptainer, unshare --user): run ckpt-dump there, as root of that namespace");
  if (target.files.empty()) return;
  std::string path = find_program(criu.path);
  struct stat ours {
  }, theirs{};
  bool same = ::stat(path.c_str(), &ours) == 0 &&
              ::stat((target.files + path).c_str(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
              ours.st_ino == theirs.st_ino;
  if (!shares_root(target.viewer))
    reasons.push_back(
        "the program runs in a container that has its own root folder, and CRIU would be loaded "
        "from there with the rights of ckpt-dump: run ckpt-dump in the container, which needs the "
        "rights that docs/PROCESSES.md lists (--suspend works from here)");
  else if (!same)
    reasons.push_back(
        fmt::format("CRIU ({}) must run in the program's mount namespace, but is not visible "
                    "there: set CKPT_CRIU to a path that leads to the same file in both",
                    path));
}

// A program that runs may have put another file there while its descriptor was read, as a shell
// does for each redirection.
bool is_other_file_now(const Process &p, const Descriptor &d) {
  UniqueFd file(::open(proc::fd_path(p.pid, d.fd).c_str(), O_PATH | O_CLOEXEC));
  struct stat st {};
  struct statx now {};
  return !file || ::fstat(file.get(), &st) != 0 || st.st_ino != d.inode ||
         ::statx(file.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &now) != 0 ||
         ((now.stx_mask & STATX_MNT_ID) != 0 && static_cast<int>(now.stx_mnt_id) != d.mount);
}

// CRIU looks the mount of every open file up in the program's mount namespace.
std::string refused_mount(const Process &p, const Descriptor &d, const std::set<int> &mounts) {
  using Kind = Descriptor::Kind;
  bool has_name = d.target.starts_with('/') && !d.deleted &&
                  (d.kind == Kind::File || d.kind == Kind::Folder || d.kind == Kind::CharDevice);
  bool closed_meanwhile = d.mount < 0;
  if (!has_name || closed_meanwhile || is_device_file(d.target) || mounts.contains(d.mount) ||
      is_other_file_now(p, d))
    return {};
  return fmt::format(
      "{}: descriptor {} ({}) was opened outside of the program's mount namespace: open it inside, "
      "or use a pipe (… | cat >FILE)",
      name_of(p), d.fd, d.target);
}

void check_descriptors(const Target &target, Closables &reasons) {
  std::set<int> mounts = all_mounts_of(target.viewer);
  for (const Process &p : target.processes)
    for (const Descriptor &d : descriptors_of(p.pid)) {
      std::string reason = refused_descriptor(p, d, target.has_agent(p.pid));
      if (reason.empty() && !mounts.empty()) reason = refused_mount(p, d, mounts);
      if (!reason.empty()) reasons.push_back({p.pid, std::move(reason)});
    }
}

void check_unix_sockets(const Target &target, Closables &reasons) {
  UnixPeers peers = UnixPeers::read();
  std::set<u64> inside = own_sockets(target);
  std::string session = fs::path(target.session_socket).parent_path().string() + "/";
  std::map<pid_t, std::vector<Descriptor>> all;
  // Those, too, that the program has started since its processes were listed.
  for (const Process &p : ProcessTable::read().tree(target.root))
    for (const Descriptor &d : descriptors_of(p.pid)) inside.insert(d.inode);
  for (const Process &p : target.processes)
    for (const Descriptor &d : all[p.pid] = descriptors_of(p.pid)) inside.insert(d.inode);
  for (const Process &p : target.processes)
    for (const Descriptor &d : all[p.pid]) {
      u64 peer = d.kind == Descriptor::Kind::Socket ? peers.peer(d.inode) : 0;
      if (peer == 0 || inside.contains(peer)) continue;
      std::string name = peers.name(peer);
      // Connections of agents and proxies, which may be newer than `inside`.
      if (name.starts_with(session) || peers.name(d.inode).starts_with(session)) continue;
      if (is_driver_socket(name) && target.has_agent(p.pid)) continue;
      // The agent closes its connection to the Manager when it detaches.
      bool to_manager = !name.empty() && name == environment_of(p.pid, managed::kSocketVariable);
      if (to_manager && target.has_agent(p.pid)) continue;
      std::string remedy = remedy_for_name_service(name);
      reasons.push_back(
          {p.pid, fmt::format("{}: descriptor {} is a UNIX socket that is connected to {} outside "
                              "of the program: {}",
                              name_of(p), d.fd, name.empty() ? "another process" : name,
                              remedy.empty() ? "close it first" : remedy)});
    }
}

void check_nvml(const Target &target, Closables &reasons) {
  for (const Process &p : target.processes)
    if (DeviceUse use(p.pid); use.only_nvml(target.has_agent(p.pid)))
      reasons.push_back(
          {p.pid, fmt::format("{} has {} open: {}", name_of(p), use.open, kNvmlRemedy)});
}

// A process with an agent reports its drivers itself. A child between vfork and exec has its
// parent's memory.
void check_drivers(const Target &target, Reasons &reasons) {
  for (const Process &p : target.processes)
    if (!target.has_agent(p.pid) && !waits_in_vfork(p.parent))
      if (std::string reason = refused_driver(p); !reason.empty())
        reasons.push_back(std::move(reason));
}

}  // namespace ckpt::tools
